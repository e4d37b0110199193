/** What the model inside the program never does, or a server seldom: here the test answers in the server's place, in its words. */

import type { Page } from "@playwright/test";
import { answers, expect, missing, say, settled, test } from "./kauri.ts";

test.skip(missing !== null, missing ?? "");

/** The next questions are answered with these deltas. */
async function answerWith(page: Page, deltas: object[], finish = "stop"): Promise<void> {
  const chunk = (delta: object, finish_reason: string | null): string =>
    `data: ${JSON.stringify({ model: "other", choices: [{ index: 0, delta, finish_reason }] })}\n\n`;
  const body = [...deltas.map((delta) => chunk(delta, null)), chunk({}, finish), "data: [DONE]\n\n"].join(": still at work\n\n");
  await page.route("**/v1/chat/completions", (route) => route.fulfill({ body, contentType: "text/event-stream" }));
}

test("thoughts are folded away, and are text", async ({ chat }) => {
  await answerWith(chat, [{ reasoning_content: "Let me **think** " }, { reasoning_content: "<img src=x onerror=alert(1)>" }, { content: "42" }]);
  await say(chat, "Why?");
  await settled(chat);
  const thoughts = answers(chat).getByText("Let me think");
  await expect(thoughts).toBeHidden();
  await answers(chat).getByText("Thoughts").click();
  await expect(thoughts).toBeVisible();
  await expect(thoughts).toContainText("<img src=x onerror=alert(1)>");
  await expect(answers(chat).locator(".body")).toHaveText("42");
});

test("two calls at a time have their results each", async ({ chat }) => {
  const call = (index: number, name: string): object => ({ tool_calls: [{ index, id: `call${index}`, function: { name, arguments: "" } }] });
  const piece = (index: number, text: string): object => ({ tool_calls: [{ index, function: { arguments: text } }] });
  await answerWith(chat, [call(0, "one"), piece(0, '{"a"'), piece(0, ": 1}"), call(1, "two"), piece(1, "{}")], "tool_calls");
  await say(chat, "Go");
  await settled(chat);
  await expect(answers(chat).getByRole("region", { name: "Call of one" }).locator("pre")).toHaveText('{\n  "a": 1\n}');
  await chat.getByRole("textbox", { name: "Result of one" }).fill("first");
  await chat.getByRole("textbox", { name: "Result of two" }).fill("second");
  const asked = chat.waitForRequest((request) => request.url().endsWith("/v1/chat/completions"));
  await chat.getByRole("button", { name: "Send results" }).click();
  const { messages } = (await asked).postDataJSON() as { messages: { tool_call_id?: string; content: string }[] };
  expect(messages.slice(-2).map(({ tool_call_id, content }) => [tool_call_id, content])).toEqual([["call0", "first"], ["call1", "second"]]);
});

test("a busy server is asked again by itself", async ({ chat }) => {
  let asked = 0;
  await chat.route("**/v1/chat/completions", (route) => {
    asked += 1;
    if (asked > 1) return route.fallback();
    const error = { message: "the queue is full", type: "overloaded_error", param: null, code: "queue_full" };
    return route.fulfill({ status: 503, headers: { "retry-after": "2" }, json: { error } });
  });
  await say(chat, "What is kauri?");
  await expect(answers(chat)).toContainText("The server is busy; asking again in");
  await settled(chat);
  expect(asked).toBe(2);
  await expect(answers(chat).locator(".markdown")).toContainText(/\w/);
});

test("an error in the middle of an answer is said", async ({ chat }) => {
  const chunk = { choices: [{ index: 0, delta: { content: "As far as" }, finish_reason: null }] };
  const error = { message: "the model fell over", type: "server_error", param: null, code: null };
  const body = `data: ${JSON.stringify(chunk)}\n\ndata: ${JSON.stringify({ error })}\n\ndata: [DONE]\n\n`;
  await chat.route("**/v1/chat/completions", (route) => route.fulfill({ body, contentType: "text/event-stream" }));
  await say(chat, "Go");
  await expect(chat.getByRole("alert").filter({ hasText: "the model fell over" })).toBeVisible();
  await expect(answers(chat).locator(".body")).toHaveText("As far as");
});

test("a stream that ends before its time is a lost connection", async ({ chat }) => {
  const chunk = { choices: [{ index: 0, delta: { content: "As far as" }, finish_reason: null }] };
  await chat.route("**/v1/chat/completions", (route) =>
    route.fulfill({ body: `data: ${JSON.stringify(chunk)}\n\n`, contentType: "text/event-stream" }),
  );
  await say(chat, "Go");
  await expect(chat.getByRole("alert").filter({ hasText: "The connection was lost" })).toBeVisible();
  await expect(answers(chat).locator(".body")).toHaveText("As far as");
});

test("code and messages are copied as they were written", async ({ chat }) => {
  await chat.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  const code = 'fn main() {\n    println!("<b>");\n}';
  const text = `Like **this**:\n\n\`\`\`rust\n${code}\n\`\`\``;
  await answerWith(chat, [{ content: text }]);
  await say(chat, "Go");
  await settled(chat);
  await expect(answers(chat).locator("pre .code-keyword")).toHaveText("fn");
  const copied = (): Promise<string> => chat.evaluate(() => navigator.clipboard.readText());
  await chat.getByRole("button", { name: "Copy code" }).click();
  await expect(chat.getByRole("status").filter({ hasText: "Copied" })).toHaveCount(1);
  expect(await copied()).toBe(code);
  await answers(chat).getByRole("button", { name: "Copy message" }).click();
  await expect.poll(copied).toBe(text);
});

test("a model that is being loaded is waited for", async ({ chat }) => {
  await chat.route("**/ready", (route) => route.fulfill({ json: { status: "ready", models: [{ id: "kauri-nano", state: "loading" }] } }));
  await chat.route("**/v1/chat/completions", async (route) => {
    await new Promise((resolve) => setTimeout(resolve, 6_000));
    await route.fallback();
  });
  await say(chat, "What is kauri?");
  await expect(chat.getByRole("progressbar", { name: "Loading of the model" })).toBeVisible();
  await expect(answers(chat)).toContainText(/Reading … \d s/);
  await settled(chat);
  await expect(chat.getByRole("progressbar", { name: "Loading of the model" })).toBeHidden();
});

test("an answer of nothing but markup does not hang the page", async ({ chat }) => {
  const deep = "> ".repeat(5_000) + "deep\n\n" + "[".repeat(5_000) + "\n\n" + "*a ".repeat(5_000) + "\n\n" + "- ".repeat(3_000) + "end";
  await answerWith(chat, [{ content: deep }]);
  await say(chat, "Go");
  await settled(chat);
  await say(chat, "Still there?");
  await expect(answers(chat)).toHaveCount(2);
  await settled(chat);

  await chat.unrouteAll();
  await answerWith(chat, [{ content: "> ".repeat(100) + "deep" }]);
  await say(chat, "Once more");
  await settled(chat);
  const depth = await answers(chat).last().locator("blockquote").count();
  expect(depth).toBeGreaterThan(20);
  expect(depth).toBeLessThan(40);
});
