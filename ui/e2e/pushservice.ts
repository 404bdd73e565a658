// A push service on this machine, as browsers' makers have them. It decrypts
// the messages that it receives, as a browser would (RFC 8188, 8291 and 8292).

import { createDecipheriv, createECDH, createPublicKey, hkdfSync, randomBytes, verify } from "node:crypto";
import { createServer, type Server as HTTPServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { BrowserContext } from "playwright-core";

const unbase64 = (text: string) => Buffer.from(text, "base64url");

export interface Message {
  text: string; // decrypted
  bytes: number; // of the encrypted message
  sender: string; // the key with which its sender identified itself
  headers: Record<string, string | string[] | undefined>;
}

export class PushService {
  readonly messages: Message[] = [];
  private readonly browser = createECDH("prime256v1");
  private readonly secret = randomBytes(16);

  private constructor(
    private readonly http: HTTPServer,
    readonly origin: string,
  ) {
    this.browser.generateKeys();
  }

  static async start(): Promise<PushService> {
    const http = createServer();
    await new Promise<void>((done) => http.listen(0, "127.0.0.1", done));
    const service = new PushService(http, `http://127.0.0.1:${(http.address() as AddressInfo).port}`);
    http.on("request", (req, res) => {
      const parts: Buffer[] = [];
      req.on("data", (part: Buffer) => parts.push(part));
      req.on("end", () => {
        const body = Buffer.concat(parts);
        const sender = service.senderOf(req.headers.authorization ?? "");
        const text = service.decrypt(body);
        service.messages.push({ text, bytes: body.length, sender, headers: req.headers });
        res.writeHead(201).end();
      });
    });
    return service;
  }

  close = () => new Promise((done) => this.http.close(done).closeAllConnections());

  /**
   * Replaces the connection of a browser to its maker's push service, which a
   * browser without network does not have. The rest of the browser is real.
   */
  async use(context: BrowserContext) {
    const keys = {
      p256dh: this.browser.getPublicKey().toString("base64"),
      auth: this.secret.toString("base64"),
    };
    await context.addInitScript(
      ({ endpoint, keys }) => {
        const stored = "test.subscription"; // where this browser keeps the key of the server
        const subscription = () => {
          const key = localStorage.getItem(stored);
          if (!key) return null;
          const bytes = (text: string) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer;
          return {
            endpoint,
            options: { applicationServerKey: bytes(key.replaceAll("-", "+").replaceAll("_", "/")) },
            getKey: (name: "p256dh" | "auth") => bytes(keys[name]),
            unsubscribe: async () => {
              localStorage.removeItem(stored);
              return true;
            },
          };
        };
        Object.assign(PushManager.prototype, {
          getSubscription: async () => subscription(),
          subscribe: async (o: { userVisibleOnly: boolean; applicationServerKey: string }) => {
            if (!o.userVisibleOnly) throw new Error("browsers require this option");
            localStorage.setItem(stored, o.applicationServerKey);
            return subscription();
          },
        });
      },
      { endpoint: `${this.origin}/browser`, keys },
    );
  }

  /** Checks who sent a message, and returns its key. */
  private senderOf(authorization: string): string {
    const [, token = "", key = ""] = /^vapid t=([^,]+), ?k=(\S+)$/.exec(authorization) ?? [];
    const point = unbase64(key);
    const [head = "", claims = "", signature = ""] = token.split(".");
    const { aud, exp } = JSON.parse(unbase64(claims).toString());
    const jwk = {
      kty: "EC",
      crv: "P-256",
      x: point.subarray(1, 33).toString("base64url"),
      y: point.subarray(33).toString("base64url"),
    };
    const signer = { key: createPublicKey({ format: "jwk", key: jwk }), dsaEncoding: "ieee-p1363" } as const;
    if (!verify("sha256", Buffer.from(`${head}.${claims}`), signer, unbase64(signature)))
      return "a wrong signature";
    return aud === this.origin && exp * 1000 > Date.now() ? key : `a token for ${aud} until ${exp}`;
  }

  private decrypt(body: Buffer): string {
    const length = body[20] ?? 0;
    const sender = body.subarray(21, 21 + length);
    const shared = this.browser.computeSecret(sender);
    const info = Buffer.concat([Buffer.from("WebPush: info\0"), this.browser.getPublicKey(), sender]);
    const input = Buffer.from(hkdfSync("sha256", shared, this.secret, info, 32));
    const derive = (label: string, size: number) =>
      Buffer.from(
        hkdfSync("sha256", input, body.subarray(0, 16), Buffer.from(`Content-Encoding: ${label}\0`), size),
      );
    const sealed = body.subarray(21 + length);
    const cipher = createDecipheriv("aes-128-gcm", derive("aes128gcm", 16), derive("nonce", 12));
    cipher.setAuthTag(sealed.subarray(-16));
    const plain = Buffer.concat([cipher.update(sealed.subarray(0, -16)), cipher.final()]);
    return plain.subarray(0, plain.lastIndexOf(2)).toString();
  }
}
