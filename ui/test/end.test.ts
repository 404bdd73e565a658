import { beforeEach, describe, expect, it } from "vitest";
import { EndFollower, scrolls, scrollsUp } from "../src/stream/end";

let end: EndFollower;
beforeEach(() => {
  end = new EndFollower();
  end.moved({ top: 1000, left: 0 });
});

describe("what is no scrolling of the reader's", () => {
  it("rows that grow below", () => {
    end.scrolled({ top: 1000, left: 400 }, 1);
    expect(end.following).toBe(true);
  });
  it("a list that measures its rows and moves the view", () => {
    end.scrolled({ top: 700, left: 300 }, 1);
    expect(end.following).toBe(true);
  });
  it("a wheel that moved another box, long ago", () => {
    end.input(1);
    while (end.shown());
    end.scrolled({ top: 700, left: 300 }, 2000);
    expect(end.following).toBe(true);
  });
  it("rows that are taken away while a wheel turns: the view is still at its end", () => {
    end.input(1);
    end.scrolled({ top: 900, left: 0 }, 10);
    expect(end.following).toBe(true);
  });
});

describe("a smooth scroll up", () => {
  it("is not ended before it begins: the page does not move the view meanwhile", () => {
    end.input(1, true);
    expect(end.pulls).toBe(false);
    end.scrolled({ top: 1000, left: 0 }, 10); // text grew
    expect(end.pulls).toBe(false);
    end.scrolled({ top: 998, left: 22 }, 20);
    expect(end.following).toBe(false);
  });
  it("that moves nothing stops nothing for long", () => {
    end.input(1, true);
    while (!end.pulls && end.shown());
    expect(end.pulls).toBe(true);
  });
  it("is as safe under a finger or the scrollbar, and after it was let go", () => {
    end.hold(true, 1);
    expect(end.pulls).toBe(false);
    while (end.shown());
    expect(end.pulls).toBe(false);
    end.hold(false, 5000);
    expect(end.pulls).toBe(false);
    while (!end.pulls && end.shown());
    expect(end.pulls).toBe(true);
  });
  it("ends with a scroll down or the wish for the end", () => {
    end.input(1, true);
    end.input(2);
    expect(end.pulls).toBe(true);
    end.input(3, true);
    end.toEnd();
    expect(end.pulls).toBe(true);
  });
});

describe("the reader leaves the end", () => {
  it("by a wheel or a key, from the first pixel on, though the page follows meanwhile", () => {
    end.input(1);
    end.moved({ top: 1200, left: 0 });
    end.scrolled({ top: 1196, left: 4 }, 20);
    expect(end.following).toBe(false);
  });
  it("by a key that a busy page took seconds to show", () => {
    end.input(1);
    end.shown();
    end.scrolled({ top: 700, left: 300 }, 2000);
    expect(end.following).toBe(false);
  });
  it("by a finger or the scrollbar, however long it rests", () => {
    end.hold(true, 1);
    end.moved({ top: 1200, left: 0 });
    end.scrolled({ top: 1100, left: 100 }, 60_000);
    expect(end.following).toBe(false);
  });
  it("by a swipe that goes on by itself", () => {
    end.hold(true, 1);
    end.hold(false, 5000);
    end.scrolled({ top: 900, left: 100 }, 5100);
    expect(end.following).toBe(false);
  });
});

it("is followed again once the reader is back at it, or asks for it", () => {
  end.input(1);
  end.scrolled({ top: 500, left: 500 }, 20);
  end.scrolled({ top: 480, left: 30 }, 30);
  expect(end.following).toBe(false);
  end.scrolled({ top: 970, left: 30 }, 40);
  expect(end.following).toBe(true);

  end.input(50);
  end.scrolled({ top: 500, left: 500 }, 60);
  end.toEnd();
  end.moved({ top: 1000, left: 0 });
  end.scrolled({ top: 900, left: 200 }, 70); // the list measured its rows
  expect(end.following).toBe(true);
});

it("knows the keys that scroll", () => {
  expect(["PageUp", "ArrowUp", "Home", " "].every(scrolls)).toBe(true);
  expect(["1", "a", "Enter", "Escape"].some(scrolls)).toBe(false);
  const up = (key: string, shiftKey = false) => scrollsUp({ key, shiftKey });
  expect(["PageUp", "ArrowUp", "Home"].every((key) => up(key)) && up(" ", true)).toBe(true);
  expect(["PageDown", "ArrowDown", "End", " ", "Tab"].some((key) => up(key))).toBe(false);
});
