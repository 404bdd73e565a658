// What the page shows while a part of it loads.

export function StreamShape() {
  return (
    <div className="min-h-0 flex-1 overflow-hidden" role="status" aria-label="Loading the session">
      <div className="mx-auto flex max-w-[52rem] flex-col gap-4 px-4 py-8">
        <div className="shape h-5 w-2/3" />
        <div className="shape h-3 w-1/2" />
        <div className="shape h-3 w-5/6" />
        <div className="shape h-3 w-3/4" />
      </div>
    </div>
  );
}

/** A session whose header is not known either. */
export function SessionShape() {
  return (
    <main id="main" className="flex min-h-0 flex-1 flex-col" aria-label="Session">
      <div className="min-h-12 shrink-0 border-b" />
      <StreamShape />
    </main>
  );
}
