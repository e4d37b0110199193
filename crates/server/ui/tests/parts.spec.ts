/** The parts that need no browser. */

import { expect, test } from "@playwright/test";
import { Events } from "../src/events.ts";
import { BadSetting, EMPTY, request, restored, toolsOf } from "../src/settings.ts";
import { type Conversation, add, choose, leadingTo, newConversation, openCalls, shown, siblings, titleOf } from "../src/tree.ts";

function conversation(): Conversation {
  return newConversation({ ...EMPTY });
}

test("events are put together however they are cut", () => {
  const stream = 'data: {"a":1}\r\n\r\n: still at work\n\ndata: one\ndata:two\n\nevent: x\ndata: [DONE]\n\n';
  for (let cut = 1; cut < stream.length; cut += 1) {
    const events = new Events();
    const heard: string[] = [];
    for (let at = 0; at < stream.length; at += cut) heard.push(...events.push(stream.slice(at, at + cut)));
    expect(heard).toEqual(['{"a":1}', "one\ntwo", "[DONE]"]);
  }
});

test("a line without an end is given up", () => {
  const events = new Events();
  expect(() => {
    for (let piece = 0; piece < 10; piece += 1) events.push("x".repeat(1 << 20));
  }).toThrow("does not end");
});

test("branches are kept, and the chosen one is shown", () => {
  const talk = conversation();
  const first = add(talk, null, { role: "user", content: "one" });
  const answer = add(talk, first.id, { role: "assistant", content: "1", finish: "stop" });
  const other = add(talk, first.id, { role: "assistant", content: "uno", finish: "stop" });
  const edited = add(talk, null, { role: "user", content: "two" });
  expect(shown(talk)).toEqual([edited]);
  expect(siblings(talk, first)).toEqual([first, edited]);
  choose(talk, first);
  expect(shown(talk)).toEqual([first, other]);
  choose(talk, answer);
  expect(shown(talk)).toEqual([first, answer]);
  expect(leadingTo(talk, other.id)).toEqual([first, other]);
  expect(talk.title).toBe("one");
});

test("a tree that goes round in circles ends", () => {
  const talk = conversation();
  const first = add(talk, null, { role: "user", content: "one" });
  const second = add(talk, first.id, { role: "assistant", content: "1" });
  first.parent = second.id;
  talk.chosen[second.id] = first.id;
  expect(shown(talk)).toHaveLength(2);
  expect(leadingTo(talk, second.id)).toHaveLength(2);
});

test("calls wait for results only when they are whole and last", () => {
  const talk = conversation();
  const user = add(talk, null, { role: "user", content: "weather?" });
  const calls = [{ id: "a", name: "weather", arguments: "{}" }];
  const caller = add(talk, user.id, { role: "assistant", content: "", calls });
  expect(openCalls(talk)).toBeNull();
  caller.finish = "tool_calls";
  expect(openCalls(talk)?.calls).toEqual(calls);
  add(talk, caller.id, { role: "tool", content: "21", call_id: "a", name: "weather" });
  expect(openCalls(talk)).toBeNull();
});

test("a request says what was typed and leaves out the rest", () => {
  const talk = conversation();
  Object.assign(talk.settings, { temperature: "0", stop: "END\n\nSTOP", system: "Be brief.", tools: '{"name": "f"}', tool_choice: "required" });
  const user = add(talk, null, { role: "user", content: "hi" });
  const half = [{ id: "a", name: "f", arguments: '{"x": ' }];
  const stopped = add(talk, user.id, { role: "assistant", content: "", calls: half, finish: "stopped" });
  expect(request(talk, stopped.id)).toEqual({
    messages: [
      { role: "system", content: "Be brief." },
      { role: "user", content: "hi" },
    ],
    stream: true,
    stream_options: { include_usage: true },
    temperature: 0,
    stop: ["END", "STOP"],
    tools: [{ type: "function", function: { name: "f" } }],
    tool_choice: "required",
  });
});

test("what is no JSON and no number is found before it is sent", () => {
  for (const [field, value] of [["tools", "[{"], ["tools", "[7]"], ["temperature", "warm"], ["max_tokens", "1e999"]] as const) {
    const talk = conversation();
    talk.settings[field] = value;
    expect(() => request(talk, null), `${field} ${value}`).toThrow(BadSetting);
  }
  expect(toolsOf({ ...EMPTY, tools: " " })).toEqual([]);
});

test("settings that were kept by another version are mended", () => {
  expect(restored(null)).toEqual(EMPTY);
  expect(restored({ temperature: 7, system: "kept", gone: "x" })).toEqual({ ...EMPTY, system: "kept" });
});

test("a title is a line and not long", () => {
  expect(titleOf("\n one \ntwo")).toBe("one");
  expect(Array.from(titleOf("🌲".repeat(100)))).toHaveLength(60);
});
