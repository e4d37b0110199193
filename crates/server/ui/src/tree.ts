/** A conversation is a tree: editing or asking again adds a branch, and nothing that was said is lost. */

import type { Settings } from "./settings.ts";

export interface Call {
  id: string;
  name: string;
  /** JSON, or the beginning of it. */
  arguments: string;
}

/** What an answer took. */
export interface Stats {
  ttft_ms?: number;
  prompt_tokens?: number;
  cached_tokens?: number;
  output_tokens?: number;
  reasoning_tokens?: number;
  prefill_tokens_per_s?: number;
  decode_tokens_per_s?: number;
  reasoning_ms?: number;
  /** Tokens per second as the answer went on. */
  history?: number[];
}

export interface Problem {
  kind: "refused" | "lost" | "closed" | "key" | "busy";
  message: string;
  /** The field that is to blame. */
  param?: string | undefined;
}

export interface Message {
  id: string;
  /** `null` for the first. */
  parent: string | null;
  role: "user" | "assistant" | "tool";
  content: string;
  reasoning?: string;
  calls?: Call[];
  /** Of a tool's result: which call it answers, and whose. */
  call_id?: string;
  name?: string;
  /** The model that answered. */
  model?: string;
  stats?: Stats;
  /** Why the answer ended; absent while it is written. */
  finish?: string;
  problem?: Problem;
  created_ms: number;
}

export interface Conversation {
  id: string;
  title: string;
  /** Whether the title was given by hand. */
  named: boolean;
  created_ms: number;
  updated_ms: number;
  messages: Record<string, Message>;
  /** Which child of each message is shown; of the root under `""`. */
  chosen: Record<string, string>;
  settings: Settings;
}

const TITLE_CHARS_MAX = 60;

/** A name that no other has. `crypto.randomUUID` is only there for pages that came over a safe connection. */
export function identifier(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  return "k" + Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

export function newConversation(settings: Settings): Conversation {
  const now = Date.now();
  return { id: identifier(), title: "", named: false, created_ms: now, updated_ms: now, messages: {}, chosen: {}, settings };
}

/** Adds a message and shows it. */
export function add(conversation: Conversation, parent: string | null, message: Omit<Message, "id" | "parent" | "created_ms">): Message {
  const whole: Message = { ...message, id: identifier(), parent, created_ms: Date.now() };
  conversation.messages[whole.id] = whole;
  conversation.chosen[parent ?? ""] = whole.id;
  conversation.updated_ms = whole.created_ms;
  if (!conversation.named && !conversation.title && message.role === "user") conversation.title = titleOf(message.content);
  return whole;
}

/** The messages with the same parent, oldest first: this one's other versions. */
export function siblings(conversation: Conversation, message: Message): Message[] {
  return Object.values(conversation.messages).filter((other) => other.parent === message.parent);
}

/** Shows the branch that holds a message. */
export function choose(conversation: Conversation, message: Message): void {
  conversation.chosen[message.parent ?? ""] = message.id;
}

/** What is shown, from the first message to the last. */
export function shown(conversation: Conversation): Message[] {
  const path: Message[] = [];
  const seen = new Set<string>();
  let parent = "";
  for (;;) {
    const next = conversation.messages[conversation.chosen[parent] ?? ""];
    // What is kept in a browser may have been tampered with: no going round in circles.
    if (!next || seen.has(next.id)) return path;
    seen.add(next.id);
    path.push(next);
    parent = next.id;
  }
}

/** The messages that lead to one, itself included, first to last. */
export function leadingTo(conversation: Conversation, id: string | null): Message[] {
  const path: Message[] = [];
  const seen = new Set<string>();
  for (let at = id; at !== null && !seen.has(at); ) {
    const message = conversation.messages[at];
    if (!message) break;
    seen.add(at);
    path.unshift(message);
    at = message.parent;
  }
  return path;
}

/** The calls at the end of a conversation that have no result yet. */
export function openCalls(conversation: Conversation): { message: Message; calls: Call[] } | null {
  const path = shown(conversation);
  const last = path.at(-1);
  if (last?.role !== "assistant" || !last.calls?.length || last.finish === undefined || last.problem) return null;
  return { message: last, calls: last.calls };
}

export function titleOf(text: string): string {
  const line = text.trim().split("\n", 1)[0]?.trim() ?? "";
  const letters = Array.from(line);
  return letters.length > TITLE_CHARS_MAX ? letters.slice(0, TITLE_CHARS_MAX - 1).join("") + "…" : line;
}
