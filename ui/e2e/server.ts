// Runs the real server with its own data for a test.

import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { request } from "node:http";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

const root = resolve(import.meta.dirname, "../..");

let built: string | undefined;

/**
 * Returns the path of the program: RUNNEL_BIN, or a program built now with the
 * page that was built before.
 */
function program(): string {
  if (process.env.RUNNEL_BIN) return resolve(process.env.RUNNEL_BIN);
  if (!existsSync(join(root, "ui/dist/index.html")))
    throw new Error("the page is not built: run `npm run build` first");
  if (!built) {
    built = join(root, "ui/test-results/runnel");
    execFileSync("go", ["build", "-o", built, "./cmd/runnel"], { cwd: root, stdio: "inherit" });
  }
  return built;
}

export class Server {
  /** Origin of the page, which has its own host name. */
  origin = "";
  /** An empty folder for sessions. */
  readonly project: string;
  private child: ChildProcess | undefined;

  private constructor(
    private readonly dir: string,
    readonly port: number,
    private readonly env: Readonly<Record<string, string>>,
    project?: string,
  ) {
    this.project = project ?? mkdtempSync(join(dir, "greeter-"));
  }

  /**
   * The server finds no agents of this machine unless env has their paths, so
   * the page shows the same on every machine.
   */
  static async start(env: Readonly<Record<string, string>> = {}, project?: string): Promise<Server> {
    const dir = mkdtempSync(join(tmpdir(), "runnel-page-"));
    const s = new Server(dir, await freePort(), { PATH: "/nowhere", HOME: dir, ...env }, project);
    await s.start();
    return s;
  }

  start(): Promise<void> {
    const args = ["serve", "--listen", `127.0.0.1:${this.port}`, "--data", join(this.dir, "data")];
    const child = spawn(program(), args, {
      stdio: ["ignore", "pipe", "pipe"],
      env: { ...process.env, ...this.env },
    });
    this.child = child;
    let said = "";
    return new Promise((ready, fail) => {
      const hear = (text: Buffer) => {
        said += text;
        const link = /(http:\S+)\/#c=\S+/.exec(said);
        if (!link) return;
        this.origin = link[1] as string;
        ready();
      };
      child.stdout?.on("data", hear);
      child.stderr?.on("data", hear);
      child.on("error", fail);
      child.on("exit", () => fail(new Error(`the server ended: ${said}`)));
    });
  }

  /** Runs a command of the program, and returns what it prints. */
  command(...args: string[]): string {
    return execFileSync(program(), [...args, "--data", join(this.dir, "data")], {
      encoding: "utf8",
      env: { ...process.env, HOME: this.dir },
    });
  }

  /** Creates a link that logs one browser in. */
  link(...flags: string[]): string {
    const out = this.command("login", ...flags);
    const link = /http\S+#c=\S+/.exec(out)?.[0];
    if (!link) throw new Error(`no link in: ${out}`);
    return link;
  }

  /**
   * The status of a response to a request for the page's host. Node.js does not
   * resolve that name, so the request goes to the address.
   */
  status(path: string, headers: Record<string, string>): Promise<number | undefined> {
    return new Promise((done, fail) => {
      const { host } = new URL(this.origin);
      const req = request({ host: "127.0.0.1", port: this.port, path, headers: { Host: host, ...headers } });
      req.on("response", (res) => done(res.resume().statusCode));
      req.on("error", fail).end();
    });
  }

  /** Kills the server, as a power cut would. */
  kill(): Promise<void> {
    return this.end("SIGKILL");
  }

  /** Stops the server and its agents. */
  stop(): Promise<void> {
    return this.end("SIGTERM");
  }

  private end(signal: NodeJS.Signals): Promise<void> {
    return new Promise((done) => {
      if (!this.child || this.child.exitCode !== null || this.child.signalCode !== null) return done();
      this.child.once("exit", () => done());
      this.child.kill(signal);
    });
  }

  async close() {
    await this.stop();
    rmSync(this.dir, { recursive: true, force: true });
  }
}

/**
 * Returns a free port below the range of ephemeral ports, so that no other
 * program receives it while the server is down.
 */
async function freePort(): Promise<number> {
  for (;;) {
    const port = 20_000 + Math.floor(Math.random() * 12_000);
    if ((await isFree(port, "127.0.0.1")) && (await isFree(port, "::1"))) return port;
  }
}

function isFree(port: number, host: string): Promise<boolean> {
  return new Promise((done) => {
    const s = createServer();
    s.once("error", (e: NodeJS.ErrnoException) => done(e.code !== "EADDRINUSE"));
    s.listen(port, host, () => s.close(() => done(true)));
  });
}
