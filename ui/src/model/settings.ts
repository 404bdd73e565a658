// What can be set of a session, from what the agent offers: models, permission
// modes, and the options it names itself. A pure function of what the server says.

import { modeLabel } from "../text/words";
import type { Agent, ConfigChoice, ConfigOption, Options, SessionStatus } from "../wire/types";

export interface Setting {
  key: string;
  name: string;
  description?: string;
  category: string; // "" where the agent names none
  type: "select" | "boolean";
  value: string; // "": the agent's own choice, or not known
  choices: ConfigChoice[];
}

const model = "model";
const mode = "permissionMode";
const own = "config:"; // and the option's id

/** Settings of a new session; their values are the agent's own choice, but for the permission mode. */
export function offered(agent: Agent): Setting[] {
  return settings(agent, agent.config, undefined, agent.modes.includes("default") ? "default" : undefined);
}

/** Settings of a session, with the values the agent or the server says they have. */
export function current(agent: Agent | undefined, s: SessionStatus): Setting[] {
  const said = s.config && s.config.length > 0 ? s.config : (agent?.config ?? []);
  const old = s.config === undefined || !s.isAlive;
  const config = said.map((o) => {
    // While no agent runs, what was set holds from its next start on. What is
    // offered to others is not what this session has.
    const model = s.config === undefined && o.category === "model" ? s.modelId : undefined;
    const value = s.given[o.id] ?? model;
    return old && value !== undefined && allows(o, value) ? { ...o, value } : o;
  });
  return settings(agent, config, s.modelId, s.permissionMode ?? "default");
}

function settings(
  agent: Agent | undefined,
  config: readonly ConfigOption[],
  modelId: string | undefined,
  permissionMode: string | undefined,
): Setting[] {
  const out: Setting[] = [];
  const has = (category: string) => config.some((o) => o.category === category);
  const models = (agent?.models ?? []).map((m) => ({
    value: m.id,
    name: m.name ?? m.id,
    description: m.description,
  }));
  if (modelId && !models.some((m) => m.value === modelId))
    models.unshift({ value: modelId, name: modelId, description: undefined });
  if (!has("model") && models.length > (modelId === undefined ? 0 : 1))
    out.push({
      key: model,
      name: "Model",
      category: "model",
      type: "select",
      value: modelId ?? "",
      choices: models,
    });
  const modes = distinct(
    (agent?.modes ?? []).map((m) => ({ value: m, name: modeLabel(m, agent?.modeLabels) })),
    permissionMode,
  );
  if (!has("mode") && modes.length > (permissionMode === undefined ? 0 : 1))
    out.push({
      key: mode,
      name: "Permissions",
      category: "mode",
      type: "select",
      value: permissionMode ?? "",
      choices: modes,
    });
  for (const o of config)
    out.push({
      key: own + o.id,
      name: o.name,
      description: o.description,
      category: o.category ?? "",
      type: o.type,
      value: o.value,
      choices: o.choices,
    });
  return out.sort((a, b) => rank(a) - rank(b));
}

// Of modes that do the same, one is offered: the one that is set.
function distinct(modes: ConfigChoice[], set: string | undefined): ConfigChoice[] {
  return modes.filter(
    (m, i) =>
      m.value === set ||
      (modes.findIndex((x) => x.name === m.name) === i &&
        !modes.some((x) => x.value === set && x.name === m.name)),
  );
}

const known = ["model", "mode", "effort"]; // what is changed most, first

const rank = (s: Setting) => (known.includes(s.category) ? known.indexOf(s.category) : known.length);

/** The settings that are at hand, and not only in the sheet: at most one of a category. */
export const atHand = (all: readonly Setting[]): Setting[] =>
  all.filter((s) => known.includes(s.category) && all.find((x) => x.category === s.category) === s);

export interface Group {
  title: string;
  settings: Setting[];
}

const titles: Record<string, string> = { model: "Model", mode: "Permissions", effort: "Effort" };

/** All settings under headings. */
export function grouped(all: readonly Setting[]): Group[] {
  const groups = new Map<string, Setting[]>();
  for (const s of all) {
    const g = groups.get(s.category);
    if (g) g.push(s);
    else groups.set(s.category, [s]);
  }
  const rest = groups.get("");
  groups.delete("");
  if (rest) groups.set("", rest); // what has no category comes last
  return [...groups].map(([category, settings]) => ({
    title: titles[category] ?? heading(category),
    settings,
  }));
}

function heading(category: string): string {
  const words = category.replace(/[_-]+/g, " ").trim();
  return words === "" ? "More" : words[0]?.toUpperCase() + words.slice(1);
}

/** What a value is called. */
export function nameOf(s: Setting, value = s.value): string {
  if (s.type === "boolean") return value === "true" ? "on" : value === "false" ? "off" : "";
  return s.choices.find((c) => c.value === value)?.name ?? value;
}

/** The values by key as options for the server; an empty one leaves it to the agent. */
export function asOptions(values: Readonly<Record<string, string>>): Options {
  const out: Options = {};
  for (const [key, value] of Object.entries(values)) {
    if (value === "") continue;
    if (key === model) out.model = value;
    else if (key === mode) out.permissionMode = value;
    else if (key.startsWith(own)) out.config = { ...out.config, [key.slice(own.length)]: value };
  }
  return out;
}

function allows(o: ConfigOption, value: string): boolean {
  return o.type === "boolean"
    ? value === "true" || value === "false"
    : o.choices.some((c) => c.value === value);
}
