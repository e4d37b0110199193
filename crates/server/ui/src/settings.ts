/** What a conversation asks with, and the request that comes of it. */

import { type Conversation, type Message, leadingTo } from "./tree.ts";

/** Every field is as it was typed; an empty one is left to the model. */
export interface Settings {
  model: string;
  system: string;
  reasoning: "" | "none" | "low" | "medium" | "high";
  temperature: string;
  top_p: string;
  top_k: string;
  min_p: string;
  repetition_penalty: string;
  frequency_penalty: string;
  presence_penalty: string;
  max_tokens: string;
  seed: string;
  /** One a line. */
  stop: string;
  format: "" | "json_object" | "json_schema";
  schema: string;
  tools: string;
  tool_choice: "" | "none" | "required";
}

/** The fields that are numbers. */
export const NUMBERS = [
  "temperature",
  "top_p",
  "top_k",
  "min_p",
  "repetition_penalty",
  "frequency_penalty",
  "presence_penalty",
  "max_tokens",
  "seed",
] as const satisfies readonly (keyof Settings)[];

export const EMPTY: Settings = {
  model: "",
  system: "",
  reasoning: "",
  temperature: "",
  top_p: "",
  top_k: "",
  min_p: "",
  repetition_penalty: "",
  frequency_penalty: "",
  presence_penalty: "",
  max_tokens: "",
  seed: "",
  stop: "",
  format: "",
  schema: "",
  tools: "",
  tool_choice: "",
};

/** Settings that were kept, whatever has become of them since. */
export function restored(kept: unknown): Settings {
  const settings: Settings = { ...EMPTY };
  if (typeof kept !== "object" || kept === null) return settings;
  for (const name of Object.keys(EMPTY) as (keyof Settings)[]) {
    const value = (kept as Record<string, unknown>)[name];
    if (typeof value === "string") (settings as unknown as Record<string, string>)[name] = value;
  }
  return settings;
}

/** A field of the settings that cannot be sent as it is. */
export class BadSetting extends Error {
  readonly field: keyof Settings;

  constructor(field: keyof Settings, message: string) {
    super(message);
    this.field = field;
  }
}

/**
 * The body of a request that continues from a message. Values are the server's to judge; only what is no JSON at all is found here.
 *
 * Throws `BadSetting`.
 */
export function request(conversation: Conversation, after: string | null): Record<string, unknown> {
  const { settings } = conversation;
  const body: Record<string, unknown> = {
    messages: messagesOf(settings.system, leadingTo(conversation, after)),
    stream: true,
    stream_options: { include_usage: true },
  };
  if (settings.model) body["model"] = settings.model;
  if (settings.reasoning) body["reasoning_effort"] = settings.reasoning;
  for (const name of NUMBERS) {
    const text = settings[name].trim();
    if (!text) continue;
    const value = Number(text);
    if (!Number.isFinite(value)) throw new BadSetting(name, "must be a number");
    body[name] = value;
  }
  const stop = settings.stop.split("\n").filter((line) => line !== "");
  if (stop.length) body["stop"] = stop;
  if (settings.format === "json_object") body["response_format"] = { type: "json_object" };
  if (settings.format === "json_schema") {
    const schema = parsed("schema", settings.schema, "the schema");
    body["response_format"] = { type: "json_schema", json_schema: { name: "answer", strict: true, schema } };
  }
  const tools = toolsOf(settings);
  if (tools.length) {
    body["tools"] = tools;
    if (settings.tool_choice) body["tool_choice"] = settings.tool_choice;
  }
  return body;
}

/** The tools of the settings: a list of definitions, or one, with or without `{"type": "function", "function": …}` around each. */
export function toolsOf(settings: Settings): unknown[] {
  if (!settings.tools.trim()) return [];
  const given = parsed("tools", settings.tools, "the tools");
  const list: unknown[] = Array.isArray(given) ? given : [given];
  return list.map((tool, index) => {
    if (typeof tool !== "object" || tool === null) throw new BadSetting("tools", `tool ${index + 1} is no object`);
    return "function" in tool ? tool : { type: "function", function: tool };
  });
}

function parsed(field: keyof Settings, text: string, what: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch (error) {
    throw new BadSetting(field, `${what} must be JSON: ${error instanceof Error ? error.message : String(error)}`);
  }
}

function messagesOf(system: string, path: Message[]): Record<string, unknown>[] {
  const messages: Record<string, unknown>[] = [];
  if (system.trim()) messages.push({ role: "system", content: system });
  for (const message of path) {
    if (message.role === "user") messages.push({ role: "user", content: message.content });
    else if (message.role === "tool") {
      messages.push({ role: "tool", tool_call_id: message.call_id, name: message.name, content: message.content });
    } else {
      // An answer that was stopped may have the beginning of a call.
      const calls = (message.calls ?? []).filter((call) => isJson(call.arguments));
      if (!message.content && !calls.length) continue;
      const sent: Record<string, unknown> = { role: "assistant", content: message.content };
      if (message.reasoning) sent["reasoning_content"] = message.reasoning;
      if (calls.length) {
        sent["tool_calls"] = calls.map((call) => ({
          id: call.id,
          type: "function",
          function: { name: call.name, arguments: call.arguments },
        }));
      }
      messages.push(sent);
    }
  }
  return messages;
}

export function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
