/**
 * Yields the frames of a stream of server-sent events in the form that the
 * document describes: the name as event, the position as id, and the JSON value
 * of the data as data.
 */
export async function* frames<Frame>(body: ReadableStream<BufferSource>): AsyncGenerator<Frame> {
  let rest = "";
  let at: Record<string, string> = {};
  for await (const text of body.pipeThrough(new TextDecoderStream())) {
    const lines = (rest + text).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) {
      if (line !== "") {
        const colon = line.indexOf(":");
        at[line.slice(0, colon)] = line.slice(colon + 1).trimStart(); // a comment line has an empty name
        continue;
      }
      if (at["event"] !== undefined) {
        const id = at["id"] === undefined ? {} : { id: at["id"] };
        yield { event: at["event"], data: JSON.parse(at["data"] ?? "null"), ...id } as Frame;
      }
      at = {};
    }
  }
}
