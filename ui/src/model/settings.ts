// The settings of a session that the agent offers: models, permission modes,
// and its own options. Pure functions of the server's data.

import { modeLabel } from "../text/words";
import type { Agent, ConfigChoice, ConfigOption, Options, SessionStatus } from "../wire/types";

export interface Setting {
  key: string;
  name: string;
  description?: string;
  category: string; // "" if the agent gives none
  type: "select" | "boolean";
  value: string; // "" if the agent decides, or if the value is unknown
  choices: ConfigChoice[];
}

const model = "model";
const mode = "permissionMode";
const own = "config:"; // prefix of the key, before the option's id

/**
 * Settings of a new session. The agent decides their values, except the
 * permission mode.
 */
export function offered(agent: Agent): Setting[] {
  return settings(agent, agent.config, undefined, agent.modes.includes("default") ? "default" : undefined);
}

/**
 * Settings of a session, with the values that the agent or the server reports.
 */
export function current(agent: Agent | undefined, s: SessionStatus): Setting[] {
  const said = s.config && s.config.length > 0 ? s.config : (agent?.config ?? []);
  const old = s.config === undefined || !s.isAlive;
  const config = said.map((o) => {
    // While no agent runs, a value set earlier applies from the next start. The
    // agent's general offer does not show the values of this session.
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

// Of several modes with the same name, only one is offered: the one that is
// set, or else the first.
function distinct(modes: ConfigChoice[], set: string | undefined): ConfigChoice[] {
  return modes.filter(
    (m, i) =>
      m.value === set ||
      (modes.findIndex((x) => x.name === m.name) === i &&
        !modes.some((x) => x.value === set && x.name === m.name)),
  );
}

const known = ["model", "mode", "effort"]; // the most used settings, first

const rank = (s: Setting) => (known.includes(s.category) ? known.indexOf(s.category) : known.length);

/** The settings shown outside of the sheet: at most one of each category. */
export const atHand = (all: readonly Setting[]): Setting[] =>
  all.filter((s) => known.includes(s.category) && all.find((x) => x.category === s.category) === s);

export interface Group {
  title: string;
  settings: Setting[];
}

const titles: Record<string, string> = { model: "Model", mode: "Permissions", effort: "Effort" };

/** All settings, grouped under headings. */
export function grouped(all: readonly Setting[]): Group[] {
  const groups = new Map<string, Setting[]>();
  for (const s of all) {
    const g = groups.get(s.category);
    if (g) g.push(s);
    else groups.set(s.category, [s]);
  }
  const rest = groups.get("");
  groups.delete("");
  if (rest) groups.set("", rest); // settings without a category come last
  return [...groups].map(([category, settings]) => ({
    title: titles[category] ?? heading(category),
    settings,
  }));
}

function heading(category: string): string {
  const words = category.replace(/[_-]+/g, " ").trim();
  return words === "" ? "More" : words[0]?.toUpperCase() + words.slice(1);
}

/** The label of a value. */
export function nameOf(s: Setting, value = s.value): string {
  if (s.type === "boolean") return value === "true" ? "on" : value === "false" ? "off" : "";
  return s.choices.find((c) => c.value === value)?.name ?? value;
}

/**
 * Converts values by key to options for the server. An empty value leaves the
 * decision to the agent.
 */
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
