import type { Plugin } from "vite";

/** The module of each view whose script is not in the first one. */
const modules = { session: "/src/app/Session.tsx", start: "/src/sessions/Start.tsx" };

/**
 * Lets src/first run the page's script: in index.html the script is only loaded,
 * and the scripts of each view are listed, so that those of the route can be
 * loaded at the same time.
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
        const page = /<script type="module" crossorigin src="([^"]+)"><\/script>/.exec(html);
        if (!page) throw new Error("index.html has no script");
        lines.push(`<link rel="modulepreload" id="page" crossorigin href="${page[1]}" />\n    `);
        return html
          .replace(page[0], "")
          .replace('<script src="./assets/first.js"', (first) => lines.join("") + first);
      },
    },
  };
}
