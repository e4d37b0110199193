/** Server-sent events, out of pieces of text that end anywhere. Knows nothing of what the events say. */

/** The longest line that is waited for. */
const LINE_CHARS_MAX = 8 << 20;

export class Events {
  #rest = "";
  #data: string[] = [];

  /** The data of each event that is whole with this piece. */
  push(piece: string): string[] {
    const whole: string[] = [];
    const lines = (this.#rest + piece).split("\n");
    this.#rest = lines.pop() ?? "";
    if (this.#rest.length > LINE_CHARS_MAX) throw new Error("the server sent a line that does not end");
    for (const ended of lines) {
      const line = ended.endsWith("\r") ? ended.slice(0, -1) : ended;
      if (line === "") {
        if (this.#data.length) whole.push(this.#data.join("\n"));
        this.#data = [];
      } else if (line.startsWith("data:")) {
        this.#data.push(line.startsWith("data: ") ? line.slice(6) : line.slice(5));
      }
    }
    return whole;
  }
}
