/** One answer as it is written: pieces of a stream become a message. Knows nothing of how messages look. */

import { type Chunk, Lost, Refused, complete } from "./client.ts";
import type { Message } from "./tree.ts";

/** The speed that is shown is that of the last so many milliseconds. */
const SPEED_WINDOW_MS = 2_000;
const HISTORY_STEP_MS = 500;
const HISTORY_MAX = 120;
/** How often a full queue is tried again before the person is asked. */
const BUSY_TRIES = 3;
const BUSY_WAIT_S_MAX = 30;

/** What is known of an answer while it is written. */
export interface Pace {
  began_ms: number;
  first_ms?: number;
  pieces: number;
  tokens_per_s: number;
  /** Until when a full queue is waited for. */
  retry_at_ms?: number;
}

/** Writes the answer to `body` into `message`, and says so after each piece. Never throws: what goes wrong becomes the message's. */
export async function answer(
  message: Message,
  body: unknown,
  signal: AbortSignal,
  heard: (pace: Pace) => void,
): Promise<void> {
  const pace: Pace = { began_ms: performance.now(), pieces: 0, tokens_per_s: 0 };
  const speed = new Speed();
  try {
    for (let tries = 1; ; tries += 1) {
      try {
        for await (const chunk of complete(body, signal)) take(message, chunk, pace, speed, heard);
        break;
      } catch (error) {
        const wait_s = error instanceof Refused ? error.retry_after_s : undefined;
        if (wait_s === undefined || pace.pieces > 0 || tries > BUSY_TRIES) throw error;
        pace.retry_at_ms = performance.now() + Math.min(wait_s, BUSY_WAIT_S_MAX) * 1000;
        heard(pace);
        await rest(pace.retry_at_ms - performance.now(), signal);
        delete pace.retry_at_ms;
      }
    }
    message.finish ??= "stop";
  } catch (error) {
    if (signal.aborted) message.finish = "stopped";
    else fail(message, error);
  }
  const stats = (message.stats ??= {});
  if (speed.history.length > 1) stats.history = speed.history;
  if (stats.output_tokens === undefined && pace.pieces) stats.output_tokens = pace.pieces;
  if (stats.decode_tokens_per_s === undefined && pace.first_ms !== undefined && pace.pieces > 1) {
    stats.decode_tokens_per_s = ((pace.pieces - 1) / Math.max(performance.now() - pace.first_ms, 1)) * 1000;
  }
}

function take(message: Message, chunk: Chunk, pace: Pace, speed: Speed, heard: (pace: Pace) => void): void {
  const stats = (message.stats ??= {});
  if (chunk.model) message.model = chunk.model;
  const choice = chunk.choices?.[0];
  const delta = choice?.delta;
  const now = performance.now();
  if (delta && (delta.content || delta.reasoning_content || delta.tool_calls?.length)) {
    if (pace.first_ms === undefined) {
      pace.first_ms = now;
      stats.ttft_ms = now - pace.began_ms;
    }
    pace.pieces += 1;
    pace.tokens_per_s = speed.at(now);
    if (delta.reasoning_content) {
      message.reasoning = (message.reasoning ?? "") + delta.reasoning_content;
      stats.reasoning_ms = now - pace.first_ms;
    }
    if (delta.content) message.content += delta.content;
    for (const piece of delta.tool_calls ?? []) takeCall(message, piece);
  }
  if (choice?.finish_reason) message.finish = choice.finish_reason;
  if (chunk.timings) {
    if (chunk.timings.ttft_ms !== undefined) stats.ttft_ms = chunk.timings.ttft_ms;
    if (chunk.timings.prefill_tokens_per_s !== undefined) stats.prefill_tokens_per_s = chunk.timings.prefill_tokens_per_s;
    if (chunk.timings.decode_tokens_per_s !== undefined) stats.decode_tokens_per_s = chunk.timings.decode_tokens_per_s;
  }
  if (chunk.usage) {
    stats.prompt_tokens = chunk.usage.prompt_tokens ?? 0;
    stats.output_tokens = chunk.usage.completion_tokens ?? pace.pieces;
    stats.cached_tokens = chunk.usage.prompt_tokens_details?.cached_tokens ?? 0;
    const reasoning = chunk.usage.completion_tokens_details?.reasoning_tokens;
    if (reasoning) stats.reasoning_tokens = reasoning;
  }
  heard(pace);
}

type CallPiece = NonNullable<NonNullable<NonNullable<Chunk["choices"]>[0]["delta"]>["tool_calls"]>[0];

function takeCall(message: Message, piece: CallPiece): void {
  const calls = (message.calls ??= []);
  const index = piece.index ?? calls.length;
  if (index === calls.length) calls.push({ id: piece.id ?? `call_${index}`, name: "", arguments: "" });
  const call = calls[index];
  if (!call) return;
  if (piece.id) call.id = piece.id;
  call.name += piece.function?.name ?? "";
  call.arguments += piece.function?.arguments ?? "";
}

function fail(message: Message, error: unknown): void {
  message.finish = "failed";
  if (error instanceof Refused) {
    const kind = error.status === 401 ? "key" : error.retry_after_s !== undefined ? "busy" : "refused";
    message.problem = { kind, message: error.message, param: error.param };
  } else if (error instanceof Lost) {
    message.problem = { kind: "lost", message: error.message };
  } else {
    const text = error instanceof Error ? error.message : String(error);
    message.problem = { kind: "lost", message: `What the server sent could not be read: ${text}` };
  }
}

function rest(time_ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, time_ms);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(signal.reason as Error);
    });
  });
}

/** Pieces per second: kauri sends a piece for each token. */
class Speed {
  readonly history: number[] = [];
  #times: number[] = [];
  #noted_ms = 0;

  at(now_ms: number): number {
    this.#times.push(now_ms);
    while ((this.#times[0] ?? now_ms) < now_ms - SPEED_WINDOW_MS) this.#times.shift();
    const first_ms = this.#times[0] ?? now_ms;
    const rate = this.#times.length > 1 ? ((this.#times.length - 1) / Math.max(now_ms - first_ms, 1)) * 1000 : 0;
    if (rate > 0 && now_ms - this.#noted_ms >= HISTORY_STEP_MS && this.history.length < HISTORY_MAX) {
      this.history.push(Math.round(rate * 10) / 10);
      this.#noted_ms = now_ms;
    }
    return rate;
  }
}
