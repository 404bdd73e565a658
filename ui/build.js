// Builds all parts of the page in one process, because the start of Vite takes
// as much processor time as some parts. The page comes first: it empties the
// folder.

import { build } from "vite";

for (const part of ["", ".first", ".worker", ".frame"])
  await build({ configFile: `vite${part}.config.ts`, logLevel: "warn" });
