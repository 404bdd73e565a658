// Decides whether the stream follows its end. Only the user's own scrolling
// stops it. Growing rows, a list that measures itself, a composer or a keyboard
// also move the view, but they do not mean that the user reads above.

/** Distance from the end, in px, within which scrolling down reaches it. */
export const near = 40;

// How long a wheel, a key or a swipe may still move the view. A busy page shows
// few frames in that time, so frames are counted as well.
const effect = 800; // ms
const effectFrames = 48;

// How many frames a key, a wheel or a swipe gets to move the view up. If the page
// followed the end in these frames, the browser would end a smooth scroll before
// its first pixel.
const startFrames = 12;

/** The scroll position of the stream. */
export interface Place {
  top: number;
  left: number; // px between the visible part and the end
}

export class EndFollower {
  following = true;
  private until = 0; // user input may move the view until this time
  private frames = 0; // and for this many more frames
  private starting = 0; // frames in which a scroll up may begin
  private held = false; // a finger or a pressed button may move the view
  private top = 0;

  /**
   * Whether to move the view to the end now. Under a finger or a pressed button
   * it stays, or the user could not drag it away.
   */
  get pulls(): boolean {
    return this.following && this.starting === 0 && !this.held;
  }

  /**
   * The user did something that can scroll, such as turn a wheel or press a
   * key. `up` says that the view may leave the end.
   */
  input(now: number, up = false) {
    this.until = now + effect;
    this.frames = effectFrames;
    this.starting = up ? startFrames : 0;
  }

  /** A frame was shown. Returns whether to report the next frame, too. */
  shown(): boolean {
    this.frames = Math.max(0, this.frames - 1);
    this.starting = Math.max(0, this.starting - 1);
    return this.frames > 0;
  }

  /** A finger or mouse button was pressed on the scroller, or released. */
  hold(down: boolean, now: number) {
    if (this.held && !down) this.input(now, true); // a swipe continues after the release
    this.held = down;
  }

  /** The user asked for the end, so earlier input no longer counts. */
  toEnd() {
    this.following = true;
    this.until = 0;
    this.frames = 0;
    this.starting = 0;
    this.held = false;
  }

  /** The page itself moved the view. */
  moved(place: Place) {
    this.top = place.top;
  }

  /** The user asked for another position. */
  leave() {
    this.following = false;
  }

  /** The view moved, for whatever reason. */
  scrolled(place: Place, now: number) {
    const up = place.top < this.top;
    const mine = this.held || now < this.until || this.frames > 0;
    // A swipe or a smooth scroll causes many scroll events.
    if (up && mine && !this.held) this.input(now);
    this.top = place.top;
    if (place.left <= 1 || (!up && place.left < near)) this.following = true;
    else if (up && mine) this.following = false;
  }
}

const scrolling = new Set(["ArrowUp", "ArrowDown", "PageUp", "PageDown", "Home", "End", " ", "Tab"]);

/** Whether a key can scroll the focused element. */
export const scrolls = (key: string): boolean => scrolling.has(key);

const upwards = new Set(["ArrowUp", "PageUp", "Home"]);

/** Whether a key can scroll the focused element only up. */
export const scrollsUp = ({ key, shiftKey }: { key: string; shiftKey: boolean }): boolean =>
  upwards.has(key) || (key === " " && shiftKey);
