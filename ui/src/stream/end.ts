// Whether the stream follows its end. Only the reader's own scrolling stops it:
// rows that grow, a list that measures itself, a composer or a keyboard that takes
// room all move the view too, and none of them means that someone reads above.

/** Distance from the end, in px, within which a scroll downwards arrives at it. */
export const near = 40;

// How long a wheel, a key or a swipe can still be moving the view. A busy page
// shows few frames in that time, so it counts in frames as well.
const effect = 800; // ms
const effectFrames = 48;

/** Where a scroller is. */
export interface Place {
  top: number;
  left: number; // px between what is shown and the end
}

export class EndFollower {
  following = true;
  private until = 0; // the reader's input may move the view until then,
  private frames = 0; // and for so many frames more
  private held = false; // a finger or a pressed button may move it
  private top = 0;

  /** The reader did something that can scroll: a wheel, a key. */
  input(now: number) {
    this.until = now + effect;
    this.frames = effectFrames;
  }

  /** A frame was shown; returns whether to tell of the next one, too. */
  shown(): boolean {
    this.frames = Math.max(0, this.frames - 1);
    return this.frames > 0;
  }

  /** A finger or a button went down on the scroller, or up again. */
  hold(down: boolean, now: number) {
    if (this.held && !down) this.input(now); // a swipe goes on by itself
    this.held = down;
  }

  /** The reader asked for the end: earlier input has nothing to say any more. */
  toEnd() {
    this.following = true;
    this.until = 0;
    this.frames = 0;
    this.held = false;
  }

  /** The page itself has moved the view. */
  moved(place: Place) {
    this.top = place.top;
  }

  /** The reader asked for another place. */
  leave() {
    this.following = false;
  }

  /** The view has moved, whoever moved it. */
  scrolled(place: Place, now: number) {
    const up = place.top < this.top;
    const mine = this.held || now < this.until || this.frames > 0;
    // A swipe or a smooth scroll tells of itself again and again.
    if (up && mine && !this.held) this.input(now);
    this.top = place.top;
    if (place.left <= 1 || (!up && place.left < near)) this.following = true;
    else if (up && mine) this.following = false;
  }
}

const scrolling = new Set(["ArrowUp", "ArrowDown", "PageUp", "PageDown", "Home", "End", " ", "Tab"]);

/** Whether a key can scroll what has the focus. */
export const scrolls = (key: string): boolean => scrolling.has(key);
