/** Conversations, kept in this browser and nowhere else. */

import { restored } from "./settings.ts";
import type { Conversation } from "./tree.ts";

/** More than these are not kept: what was touched longest ago goes first. */
const CONVERSATIONS_MAX = 500;
const DATABASE = "kauri";
const STORE = "conversations";

export class Store {
  #database: Promise<IDBDatabase> | null = null;
  #channel = new BroadcastChannel("kauri");

  /** Called when another window changed a conversation. */
  onchange: (id: string) => void = () => {};

  constructor() {
    this.#channel.onmessage = (event) => this.onchange(String(event.data));
  }

  /** All, latest first. */
  async list(): Promise<Conversation[]> {
    const store = await this.#store("readonly");
    const kept = await result<unknown[]>(store.getAll());
    return kept.filter(isConversation).map(mended).sort((a, b) => b.updated_ms - a.updated_ms);
  }

  async get(id: string): Promise<Conversation | null> {
    const kept = await result<unknown>((await this.#store("readonly")).get(id));
    return isConversation(kept) ? mended(kept) : null;
  }

  /** Throws what the browser throws when it has no room. */
  async put(conversation: Conversation): Promise<void> {
    const store = await this.#store("readwrite");
    await result(store.put(conversation));
    this.#channel.postMessage(conversation.id);
  }

  async remove(id: string): Promise<void> {
    const store = await this.#store("readwrite");
    await result(store.delete(id));
    this.#channel.postMessage(id);
  }

  /** Forgets what is beyond the limit; returns how many that were. */
  async trim(): Promise<number> {
    const beyond = (await this.list()).slice(CONVERSATIONS_MAX);
    for (const conversation of beyond) await this.remove(conversation.id);
    return beyond.length;
  }

  async #store(mode: IDBTransactionMode): Promise<IDBObjectStore> {
    this.#database ??= open();
    return (await this.#database).transaction(STORE, mode).objectStore(STORE);
  }
}

function open(): Promise<IDBDatabase> {
  const request = indexedDB.open(DATABASE, 1);
  request.onupgradeneeded = () => request.result.createObjectStore(STORE, { keyPath: "id" });
  return result(request);
}

function result<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error ?? new Error("the browser's store does not answer"));
  });
}

function isConversation(kept: unknown): kept is Conversation {
  if (typeof kept !== "object" || kept === null) return false;
  const { id, title, messages, chosen } = kept as Partial<Conversation>;
  return typeof id === "string" && typeof title === "string" && typeof messages === "object" && typeof chosen === "object";
}

/** An answer that was being written when its page was closed will not be finished. */
function mended(conversation: Conversation): Conversation {
  conversation.settings = restored(conversation.settings);
  return conversation;
}

const SETTINGS = "kauri.settings";
const THEME = "kauri.theme";

/** What new conversations begin with. */
export const defaults = {
  read: () => restored(fromLocal(SETTINGS)),
  write: (settings: unknown) => toLocal(SETTINGS, settings),
};

export type Theme = "auto" | "light" | "dark";

export const theme = {
  read: (): Theme => {
    const kept = fromLocal(THEME);
    return kept === "light" || kept === "dark" ? kept : "auto";
  },
  write: (theme: Theme) => toLocal(THEME, theme),
};

function fromLocal(name: string): unknown {
  try {
    return JSON.parse(localStorage.getItem(name) ?? "null") as unknown;
  } catch {
    return null;
  }
}

function toLocal(name: string, value: unknown): void {
  try {
    localStorage.setItem(name, JSON.stringify(value));
  } catch {
    // A browser that keeps nothing still lets people talk.
  }
}
