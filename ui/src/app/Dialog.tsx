import { X } from "lucide-react";
import { type ReactNode, useEffect, useLayoutEffect, useRef } from "react";

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
  tools,
}: {
  title: string;
  onClose: () => void;
  children: ReactNode;
  wide?: boolean;
  tools?: ReactNode; // buttons beside the title; the content then reaches the edges and scrolls in both directions, and the title stays in its place when it arrives
  sheet?: boolean; // on a phone, open from the bottom edge at full width
}) {
  const ref = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const d = ref.current;
    d?.showModal();
    d?.querySelector<HTMLElement>("[data-focus]")?.focus();
  }, []);
  // The browser returns the focus to where it was before, if the dialog is
  // closed while it is still on the page.
  useLayoutEffect(() => {
    const d = ref.current;
    return () => d?.close();
  }, []);
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: Escape closes a dialog already
    <dialog
      ref={ref}
      onClose={onClose}
      onClick={(e) => e.target === ref.current && onClose()}
      aria-label={title}
      className={`max-h-[90dvh] w-[calc(100vw-24px)] overflow-hidden rounded-lg border bg-bg p-0 shadow-xl ${wide ? "max-w-5xl" : "max-w-md"} ${tools ? "mt-[5dvh]" : ""} ${sheet ? "narrow:mb-0 narrow:w-full narrow:max-w-none narrow:rounded-b-none narrow:pb-[env(safe-area-inset-bottom)]" : ""}`}
    >
      <div className="flex max-h-[90dvh] flex-col">
        <div className="flex items-center justify-between gap-1 border-b py-2 pr-2 pl-4">
          <h2 className="isolate-text min-w-0 flex-1 font-semibold">{title}</h2>
          {tools}
          <button type="button" className="quiet" onClick={onClose} aria-label="Close">
            <X size={16} aria-hidden />
          </button>
        </div>
        <section
          className={`min-h-0 ${tools ? "overflow-auto" : "overflow-y-auto p-4"}`}
          tabIndex={0}
          aria-label={title}
          data-focus={tools ? "" : undefined}
        >
          {children}
        </section>
      </div>
    </dialog>
  );
}
