import { type ReactNode, useId } from "react";
import { Choose } from "../app/Choose";
import { type Entered, type Field, fault, nothing } from "../model/form";
import { Visible } from "../text/Shown";
import { plain } from "../text/visible";

const radios = 6; // maximum number of options shown at once, not in a list
const radiosWithWords = 12;

/** Fields of a form. Errors are shown after the first attempt to send it. */
export function Fields({
  fields,
  values,
  onChange,
  tried,
}: {
  fields: readonly Field[];
  values: ReadonlyMap<string, Entered>;
  onChange: (key: string, e: Entered) => void;
  tried: boolean;
}) {
  return (
    <div className="flex max-w-xl flex-col gap-4">
      {fields.map((f, i) => {
        const e = values.get(f.key) ?? nothing;
        return (
          <OneField
            key={i}
            f={f}
            e={e}
            wrong={tried ? fault(f, e) : undefined}
            onChange={(more) => onChange(f.key, { ...e, ...more })}
          />
        );
      })}
    </div>
  );
}

interface Props {
  f: Field;
  e: Entered;
  wrong?: string;
  onChange: (e: Partial<Entered>) => void;
}

interface Inner extends Props {
  id: string;
  about: string | undefined; // ids of the elements that describe the field
}

function OneField(p: Props) {
  const { f, wrong } = p;
  const id = useId();
  const about = [f.description && `${id}d`, wrong && `${id}w`].filter(Boolean).join(" ") || undefined;
  const many = f.kind === "many" || (f.kind === "one" && isOpen(f));
  const name = (
    <>
      {f.heading && <span className="block text-xs font-normal text-muted">{plain(f.heading, 80)}</span>}
      <Visible text={f.name} />
      {!f.required && f.kind !== "boolean" && <span className="font-normal text-muted"> (optional)</span>}
    </>
  );
  const inner = { ...p, id, about };
  const said = (
    <>
      {f.description && (
        <p id={`${id}d`} className="isolate-text text-sm text-muted">
          <Visible text={f.description} />
        </p>
      )}
    </>
  );
  const mistake = wrong && (
    <p id={`${id}w`} className="mt-1 text-sm text-del">
      {wrong}
    </p>
  );
  const mark = { "data-field": f.key, "data-wrong": wrong ? "" : undefined };
  if (f.kind === "boolean")
    return (
      <div {...mark}>
        <label className="flex min-h-9 cursor-pointer items-center gap-3 [@media(pointer:coarse)]:min-h-11">
          <span className="isolate-text min-w-0 font-medium">{name}</span>
          <input
            type="checkbox"
            role="switch"
            aria-checked={p.e.on}
            className="switch ml-auto"
            aria-describedby={about}
            checked={p.e.on}
            onChange={(ev) => p.onChange({ on: ev.target.checked })}
          />
        </label>
        {said}
      </div>
    );
  if (many)
    return (
      <fieldset {...mark} aria-describedby={about} aria-invalid={!!wrong}>
        <legend className="isolate-text mb-1 font-medium">{name}</legend>
        {said}
        <Options {...inner} />
        {mistake}
      </fieldset>
    );
  return (
    <div {...mark}>
      <label htmlFor={id} className="isolate-text mb-1 block font-medium">
        {name}
      </label>
      {said}
      <div className={f.description ? "mt-1" : undefined}>
        {f.kind === "one" ? <List {...inner} /> : <Input {...inner} />}
      </div>
      {mistake}
    </div>
  );
}

// Whether all options are shown at once, instead of in a list that opens.
const isOpen = (f: Field) =>
  f.other || f.options.length <= (f.options.some((o) => o.description) ? radiosWithWords : radios);

const inputs: Partial<
  Record<Field["kind"], { type?: string; mode?: "email" | "url" | "decimal" | "numeric" }>
> = {
  email: { mode: "email" },
  uri: { mode: "url" },
  number: { mode: "decimal" },
  integer: { mode: "numeric" },
  date: { type: "date" },
  datetime: { type: "datetime-local" },
  secret: { type: "password" },
};

const longText = 200; // characters; a longer text gets a field with several lines

function Input({ f, e, wrong, onChange, id, about }: Inner) {
  const shared = {
    id,
    className: "field",
    value: e.text,
    required: f.required,
    "aria-invalid": !!wrong,
    "aria-describedby": about,
    autoComplete: "off",
    spellCheck: f.kind === "text",
  };
  if (f.kind === "json" || (f.kind === "text" && (f.max ?? 0) > longText))
    return (
      <textarea
        {...shared}
        className={`field min-h-20 ${f.kind === "json" ? "mono-block" : ""}`}
        onChange={(ev) => onChange({ text: ev.target.value })}
      />
    );
  const how = inputs[f.kind];
  return (
    <input
      {...shared}
      type={how?.type ?? "text"}
      inputMode={how?.mode}
      autoCapitalize={f.kind === "text" ? undefined : "off"}
      onChange={(ev) => onChange({ text: ev.target.value })}
    />
  );
}

function List({ f, e, wrong, onChange, id, about }: Inner) {
  return (
    <Choose
      id={id}
      label={plain(f.name, 80)}
      value={e.chosen[0] ?? ""}
      choices={f.options.map((o) => ({ value: o.json, name: o.name, description: o.description }))}
      none={f.required ? "Choose…" : "None"}
      invalid={!!wrong}
      describedBy={about}
      onChange={(v) => onChange({ chosen: v === "" ? [] : [v] })}
    />
  );
}

function Options({ f, e, onChange, id }: Inner) {
  const several = f.kind === "many";
  const choose = (json: string, on: boolean) =>
    several
      ? onChange({ chosen: on ? [...e.chosen, json] : e.chosen.filter((j) => j !== json) })
      : onChange({ chosen: [json], other: false });
  const input = (checked: boolean, set: (on: boolean) => void) => (
    <input
      type={several ? "checkbox" : "radio"}
      name={several ? undefined : id}
      className="mt-1 shrink-0 accent-accent"
      checked={checked}
      onChange={(ev) => set(ev.target.checked)}
    />
  );
  return (
    <div className="flex flex-col">
      {f.options.map((o) => (
        <Line key={o.json}>
          {input(e.chosen.includes(o.json) && (several || !e.other), (on) => choose(o.json, on))}
          <span className="isolate-text min-w-0">
            <Visible text={o.name} />
            {o.description && (
              <span className="block text-sm text-muted">
                <Visible text={o.description} />
              </span>
            )}
          </span>
        </Line>
      ))}
      {!several && !f.required && (
        <Line>
          {input(e.chosen.length === 0, () => onChange({ chosen: [] }))}
          <span className="text-muted">No answer</span>
        </Line>
      )}
      {f.other && (
        <>
          <Line>
            {input(e.other, (on) => onChange(several ? { other: on } : { other: true, chosen: [] }))}
            <span>Something else</span>
          </Line>
          {e.other && (
            <input
              className="field ml-6 w-auto"
              aria-label={`${plain(f.name, 80)}: in your own words`}
              value={e.text}
              onChange={(ev) => onChange({ text: ev.target.value })}
            />
          )}
        </>
      )}
    </div>
  );
}

const Line = ({ children }: { children: ReactNode }) => (
  // biome-ignore lint/a11y/noLabelWithoutControl: its children hold the input
  <label className="flex min-h-8 cursor-pointer items-start gap-2 py-1 [@media(pointer:coarse)]:min-h-11 [@media(pointer:coarse)]:py-2.5">
    {children}
  </label>
);
