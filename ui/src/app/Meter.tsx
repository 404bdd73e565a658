/** A share of a whole, as a bar and in words. `scarce` marks a share that is almost the whole. */
export function Meter({
  name,
  value,
  max,
  text,
  scarce,
}: {
  name: string;
  value: number;
  max?: number;
  text: string;
  scarce?: boolean;
}) {
  return (
    <div className="mb-2 text-sm">
      <p className="flex gap-2">
        <span className="min-w-0">{name}</span>
        <span className="ml-auto shrink-0 text-muted">{text}</span>
      </p>
      {max !== undefined && max > 0 && (
        // biome-ignore lint/a11y/useSemanticElements: <meter> is drawn in colours of the browser
        <div
          className="mt-1 h-1 overflow-hidden rounded-full bg-line"
          role="meter"
          aria-label={name}
          aria-valuenow={Math.min(value, max)}
          aria-valuemin={0}
          aria-valuemax={max}
          aria-valuetext={text}
        >
          <div
            className={`h-full ${scarce && value / max >= 0.9 ? "bg-mark" : "bg-accent"}`}
            style={{ width: `${Math.min(100, (value / max) * 100)}%` }}
          />
        </div>
      )}
    </div>
  );
}
