import type { Plugin } from "vite";

/** The module of each view whose script is not in the first one. */
const modules = { session: "/src/app/Session.tsx", start: "/src/sessions/Start.tsx" };

/**
 * Lists the scripts of each view in index.html, so that src/first can load those
 * of the route before the page's first script has run.
 */
export function views(): Plugin {
  return {
    name: "views",
    apply: "build",
    transformIndexHtml: {
      order: "post",
      handler(html, { bundle = {} }) {
        const chunks = Object.values(bundle).filter((c) => c.type === "chunk");
        const needs = (file: string): string[] => {
          const imports = chunks.find((c) => c.fileName === file)?.imports ?? [];
          return [file, ...imports.flatMap(needs)];
        };
        const lines = Object.entries(modules).flatMap(([view, module]) => {
          const chunk = chunks.find((c) => c.facadeModuleId?.endsWith(module));
          if (!chunk) throw new Error(`${module} is not a script of its own`);
          return [...new Set(needs(chunk.fileName))]
            .filter((file) => !html.includes(file))
            .map((file) => `<meta name="${view}" content="./${file}" />\n    `);
        });
        return html.replace('<script src="./assets/first.js"', (first) => lines.join("") + first);
      },
    },
  };
}
