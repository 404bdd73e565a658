// What jsdom lacks of a browser: media queries. The tests see a wide window.

if (typeof window !== "undefined")
  window.matchMedia ??= (media: string) =>
    Object.assign(new EventTarget(), {
      media,
      matches: media.startsWith("(width"),
    }) as unknown as MediaQueryList;
