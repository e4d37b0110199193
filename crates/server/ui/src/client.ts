/** The server, as this page asks it. Every error comes out as one that can be shown. */

import { Events } from "./events.ts";

/** A stream in which nothing is heard for so long is lost: the server says that it lives every 10 seconds. */
const SILENCE_MS_MAX = 60_000;
const KEY = "kauri.key";

export interface Model {
  id: string;
  context_length?: number;
  /** unloaded, loading, loaded or failed, where the server says so. */
  state?: string;
}

/** The server said no. */
export class Refused extends Error {
  readonly status: number;
  readonly param: string | undefined;
  readonly retry_after_s: number | undefined;

  constructor(status: number, message: string, param?: string, retry_after_s?: number) {
    super(message);
    this.status = status;
    this.param = param;
    this.retry_after_s = retry_after_s;
  }
}

/** The server was not reached, or was heard no more. */
export class Lost extends Error {}

export function setKey(key: string): void {
  if (key) sessionStorage.setItem(KEY, key);
  else sessionStorage.removeItem(KEY);
}

export function hasKey(): boolean {
  return sessionStorage.getItem(KEY) !== null;
}

export async function models(): Promise<Model[]> {
  const response = await ask("/v1/models");
  const list = (await response.json()) as { data?: { id?: unknown; context_length?: unknown; state?: unknown }[] };
  return (list.data ?? []).flatMap((model) => {
    if (typeof model.id !== "string") return [];
    return [
      {
        id: model.id,
        ...(typeof model.context_length === "number" && { context_length: model.context_length }),
        ...(typeof model.state === "string" && { state: model.state }),
      },
    ];
  });
}

/** How far a model has been loaded, from 0 to 1; `null` where it is not being loaded, and `NaN` where the server does not say how far. */
export async function loadProgress(name: string): Promise<number | null> {
  try {
    const response = await fetch("/ready");
    const ready = (await response.json()) as { models?: { id?: string; state?: string; progress?: number }[] };
    const model = ready.models?.find((model) => model.id === name);
    if (model?.state !== "loading") return null;
    return typeof model.progress === "number" ? model.progress : NaN;
  } catch {
    return null;
  }
}

/** A piece of an answer, as OpenAI's streams have it. */
export interface Chunk {
  model?: string;
  choices?: {
    delta?: {
      content?: string | null;
      reasoning_content?: string | null;
      tool_calls?: { index?: number; id?: string; function?: { name?: string; arguments?: string } }[];
    };
    finish_reason?: string | null;
  }[];
  usage?: {
    prompt_tokens?: number;
    completion_tokens?: number;
    prompt_tokens_details?: { cached_tokens?: number };
    completion_tokens_details?: { reasoning_tokens?: number };
  } | null;
  timings?: { ttft_ms?: number; prefill_tokens_per_s?: number; decode_tokens_per_s?: number };
}

/** Throws `Refused`, `Lost`, or what `signal` was aborted with. */
export async function* complete(body: unknown, signal: AbortSignal): AsyncGenerator<Chunk> {
  const response = await ask("/v1/chat/completions", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
    signal,
  });
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  if (!reader) throw new Lost("The server's answer is empty.");
  const events = new Events();
  try {
    for (;;) {
      const { done, value } = await heard(reader.read(), signal);
      if (done) throw new Lost("The connection to the server ended in the middle of the answer.");
      for (const data of events.push(value)) {
        if (data === "[DONE]") return;
        const chunk = JSON.parse(data) as Chunk & { error?: ErrorBody };
        if (chunk.error) throw refused(0, chunk.error);
        yield chunk;
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

async function ask(path: string, options: RequestInit = {}): Promise<Response> {
  const headers = new Headers(options.headers);
  const key = sessionStorage.getItem(KEY);
  if (key) headers.set("authorization", `Bearer ${key}`);
  let response: Response;
  try {
    response = await fetch(path, { ...options, headers });
  } catch (error) {
    options.signal?.throwIfAborted();
    throw new Lost(`The server cannot be reached. Is it still running? (${error instanceof Error ? error.message : String(error)})`);
  }
  if (response.ok) return response;
  const body = (await response.json().catch(() => null)) as { error?: ErrorBody } | null;
  const wait_s = Number(response.headers.get("retry-after"));
  throw refused(response.status, body?.error ?? null, wait_s > 0 ? wait_s : undefined);
}

async function heard<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const silence = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Lost("The server has not been heard for a minute.")), SILENCE_MS_MAX);
  });
  try {
    return await Promise.race([promise, silence]);
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof Lost) throw error;
    throw new Lost("The connection to the server was lost in the middle of the answer.");
  } finally {
    clearTimeout(timer);
  }
}

type ErrorBody = string | { message?: unknown; param?: unknown };

function refused(status: number, error: ErrorBody | null, retry_after_s?: number): Refused {
  const fields = typeof error === "object" ? error : { message: error };
  const message = typeof fields?.message === "string" ? fields.message : `The server answered with status ${status}.`;
  return new Refused(status, message, typeof fields?.param === "string" ? fields.param : undefined, retry_after_s);
}
