import { X } from "lucide-react";
import { type ReactNode, useEffect, useRef } from "react";

/**
 * The browser's own modal dialog: it keeps the focus inside, and Escape closes
 * it. The element with `data-focus` has the focus at first.
 */
export function Dialog({
  title,
  onClose,
  children,
  wide,
  sheet,
}: {
  title: string;
  onClose: () => void;
  children: ReactNode;
  wide?: boolean;
  sheet?: boolean; // on a phone, open from the bottom edge at full width
}) {
  const ref = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const d = ref.current;
    d?.showModal();
    d?.querySelector<HTMLElement>("[data-focus]")?.focus();
    return () => d?.close();
  }, []);
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: Escape closes a dialog already
    <dialog
      ref={ref}
      onClose={onClose}
      onClick={(e) => e.target === ref.current && onClose()}
      aria-label={title}
      className={`max-h-[90dvh] w-[calc(100vw-24px)] overflow-hidden rounded-lg border bg-bg p-0 shadow-xl ${wide ? "max-w-5xl" : "max-w-md"} ${sheet ? "narrow:mb-0 narrow:w-full narrow:max-w-none narrow:rounded-b-none narrow:pb-[env(safe-area-inset-bottom)]" : ""}`}
    >
      <div className="flex max-h-[90dvh] flex-col">
        <div className="flex items-center justify-between border-b py-2 pr-2 pl-4">
          <h2 className="font-semibold">{title}</h2>
          <button type="button" className="quiet" onClick={onClose} aria-label="Close">
            <X size={16} aria-hidden />
          </button>
        </div>
        <section className="min-h-0 overflow-y-auto p-4" tabIndex={0} aria-label={title}>
          {children}
        </section>
      </div>
    </dialog>
  );
}
