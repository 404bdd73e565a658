import { Check, ChevronDown } from "lucide-react";
import { type KeyboardEvent, useEffect, useId, useMemo, useRef, useState } from "react";
import { plain } from "../text/visible";
import type { ConfigChoice } from "../wire/types";
import { Dialog } from "./Dialog";

const few = 12; // number of choices that need no search field

interface Props {
  label: string;
  value: string;
  choices: readonly ConfigChoice[];
  onChange: (value: string) => void;
  none?: string; // label of the empty value; absent if it cannot be chosen
  className?: string;
  id?: string;
  busy?: boolean;
  invalid?: boolean;
  describedBy?: string;
}

/**
 * A choice of one value: the browser's own select element, or a list with a
 * search field if there are many choices.
 */
export function Choose(p: Props) {
  if (p.choices.length > few) return <Long {...p} />;
  if (!p.className) return <Short {...p} />;
  // A select element with a look of its own does not show that it opens.
  return (
    <span className="relative inline-flex min-w-0 items-center">
      <Short {...p} />
      <ChevronDown size={14} aria-hidden className="pointer-events-none absolute right-1 text-muted" />
    </span>
  );
}

function Short({ label, value, choices, onChange, none, className, id, busy, invalid, describedBy }: Props) {
  const lost = value !== "" && !choices.some((c) => c.value === value);
  return (
    <select
      id={id}
      aria-label={id ? undefined : label}
      aria-busy={busy}
      aria-invalid={invalid}
      aria-describedby={describedBy}
      title={label}
      className={className ?? "field"}
      value={value}
      onChange={(e) => onChange(e.target.value)}
    >
      {(none !== undefined || value === "") && <option value="">{none ?? label}</option>}
      {lost && <option value={value}>{plain(value, 80)}</option>}
      {byGroup(choices).map(([group, cs]) =>
        group === "" ? (
          cs.map((c) => <Option key={c.value} c={c} />)
        ) : (
          <optgroup key={group} label={plain(group, 80)}>
            {cs.map((c) => (
              <Option key={c.value} c={c} />
            ))}
          </optgroup>
        ),
      )}
    </select>
  );
}

const Option = ({ c }: { c: ConfigChoice }) => (
  <option value={c.value} title={c.description && plain(c.description)}>
    {plain(c.name, 80)}
  </option>
);

function byGroup(choices: readonly ConfigChoice[]): [string, ConfigChoice[]][] {
  const groups = new Map<string, ConfigChoice[]>();
  for (const c of choices) {
    const g = groups.get(c.group ?? "");
    if (g) g.push(c);
    else groups.set(c.group ?? "", [c]);
  }
  return [...groups];
}

function Long(p: Props) {
  const [open, setOpen] = useState(false);
  const now = p.choices.find((c) => c.value === p.value);
  const text = plain(now?.name ?? p.value, 80) || (p.none ?? p.label);
  return (
    <>
      <button
        type="button"
        id={p.id}
        aria-label={`${p.label}: ${text}`}
        aria-haspopup="dialog"
        aria-busy={p.busy}
        aria-describedby={p.describedBy}
        title={p.label}
        className={`${p.className ?? "field"} flex items-center gap-1 text-left`}
        onClick={() => setOpen(true)}
      >
        <span className="min-w-0 truncate">{text}</span>
        <ChevronDown size={14} aria-hidden className="ml-auto shrink-0 text-muted" />
      </button>
      {open && (
        <Dialog title={p.label} onClose={() => setOpen(false)}>
          <Search
            {...p}
            onChange={(v) => {
              setOpen(false);
              if (v !== p.value) p.onChange(v);
            }}
          />
        </Dialog>
      )}
    </>
  );
}

function Search({ label, value, choices, onChange, none }: Props) {
  const [query, setQuery] = useState("");
  const [at, setAt] = useState(-1); // index of the choice that Enter selects
  const list = useRef<HTMLDivElement>(null);
  const id = useId();
  const found = useMemo(() => {
    const all = none === undefined ? choices : [{ value: "", name: none }, ...choices];
    const words = query.toLowerCase().split(/\s+/).filter(Boolean);
    const hits = all.filter((c) => {
      const text = `${c.name} ${c.value} ${c.description ?? ""} ${c.group ?? ""}`.toLowerCase();
      return words.every((w) => text.includes(w));
    });
    return byGroup(hits).flatMap(([, cs]) => cs); // in the order in which they are drawn
  }, [choices, none, query]);
  const active =
    at >= 0 ? Math.min(at, found.length - 1) : query === "" ? found.findIndex((c) => c.value === value) : 0;

  useEffect(() => {
    list.current?.querySelector(`[id="${id}${active}"]`)?.scrollIntoView?.({ block: "nearest" });
  }, [active, id]);

  const key = (e: KeyboardEvent) => {
    const n = found.length;
    if (n === 0) return;
    if (e.key === "ArrowDown") setAt((active + 1) % n);
    else if (e.key === "ArrowUp") setAt((active - 1 + n) % n);
    else if (e.key === "Enter" && found[active]) onChange(found[active].value);
    else return;
    e.preventDefault();
  };

  let i = -1;
  return (
    <div className="flex flex-col gap-2">
      <input
        type="search"
        role="combobox"
        aria-label={`Search ${label.toLowerCase()}`}
        aria-expanded
        aria-controls={`${id}list`}
        aria-autocomplete="list"
        aria-activedescendant={active >= 0 && found.length > 0 ? `${id}${active}` : undefined}
        className="field"
        placeholder="Search"
        autoComplete="off"
        spellCheck={false}
        // biome-ignore lint/a11y/noAutofocus: the dialog is for searching
        autoFocus
        value={query}
        onChange={(e) => {
          setQuery(e.target.value);
          setAt(-1);
        }}
        onKeyDown={key}
      />
      <div ref={list} role="listbox" id={`${id}list`} aria-label={label} className="flex flex-col">
        {byGroup(found).map(([group, cs], g) => {
          const rows = cs.map((c) => {
            const mine = ++i;
            return (
              // biome-ignore lint/a11y/useKeyWithClickEvents: the keys are those of the search field
              <div
                key={c.value}
                id={`${id}${mine}`}
                role="option"
                tabIndex={-1}
                aria-selected={c.value === value}
                className={`flex min-h-9 cursor-pointer items-center gap-2 rounded-md px-2 py-1 [@media(pointer:coarse)]:min-h-11 ${mine === active ? "bg-tint" : "hover:bg-panel"}`}
                onClick={() => onChange(c.value)}
              >
                <span className="min-w-0">
                  <span className="isolate-text block">{plain(c.name, 120)}</span>
                  {c.description && (
                    <span className="isolate-text block text-sm text-muted">{plain(c.description, 200)}</span>
                  )}
                </span>
                {c.value === value && (
                  <Check size={15} aria-hidden className="ml-auto shrink-0 text-accent" />
                )}
              </div>
            );
          });
          if (group === "") return rows;
          return (
            // biome-ignore lint/a11y/useSemanticElements: a group of options, not of fields
            <div key={group} role="group" aria-labelledby={`${id}g${g}`}>
              <p
                id={`${id}g${g}`}
                className="px-2 pt-2 pb-1 text-xs font-medium text-muted"
                role="presentation"
              >
                {plain(group, 80)}
              </p>
              {rows}
            </div>
          );
        })}
      </div>
      <p className="text-sm text-muted" role="status">
        {found.length === 0 ? `Nothing matches “${plain(query, 60)}”.` : query ? `${found.length} found` : ""}
      </p>
    </div>
  );
}
