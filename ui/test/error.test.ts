import { describe, expect, it } from "vitest";
import { sentence, withoutField } from "../src/wire/error";

describe("an error of the server", () => {
  it.each([
    ["the folder is gone; choose another", "The folder is gone; choose another"],
    ["path: there is no such folder", "Path: there is no such folder"],
    ["git cannot be used", "Git cannot be used"],
    ["projectDir: is missing", "projectDir: is missing"],
    ["config.yaml, line 3: unknown key", "config.yaml, line 3: unknown key"],
    ["mcp-writes is off", "mcp-writes is off"],
    ["429 from the model", "429 from the model"],
    ["Already a sentence.", "Already a sentence."],
    ["", ""],
  ])("is shown as a sentence: %s", (text, shown) => {
    expect(sentence(text)).toBe(shown);
  });

  it("does not name the only field", () => {
    expect(withoutField("Path: there is no such folder", "path")).toBe("There is no such folder");
    expect(withoutField("The folder is gone", "path")).toBe("The folder is gone");
  });
});
