// The openai npm package against a running server: chat, streams, tools, schemas (parse), responses, embeddings, errors.

import assert from "node:assert/strict";
import OpenAI from "openai";
import { zodResponseFormat, zodTextFormat } from "openai/helpers/zod";
import { z } from "zod";

const client = new OpenAI({ baseURL: `${process.argv[2]}/v1`, apiKey: "none", maxRetries: 0 });
const model = "kauri-nano";
const said = (content) => [{ role: "user", content }];
const weather = {
  type: "function",
  function: {
    name: "get_weather",
    description: "Get the current weather for a city.",
    parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
  },
};
const Person = z.object({ name: z.string(), age: z.number().int(), likes: z.array(z.string()) });

const tests = {
  async chat() {
    const asked = { model, messages: said("What is kauri?"), temperature: 0, max_tokens: 60 };
    const answer = await client.chat.completions.create(asked);
    const text = answer.choices[0].message.content;
    assert.match(text, /inference engine/);
    assert.equal(answer.usage.total_tokens, answer.usage.prompt_tokens + answer.usage.completion_tokens);
    const stream = await client.chat.completions.create({ ...asked, stream: true, stream_options: { include_usage: true } });
    let streamed = "";
    let usage = null;
    for await (const chunk of stream) {
      streamed += chunk.choices[0]?.delta?.content ?? "";
      usage = chunk.usage ?? usage;
    }
    assert.equal(streamed, text);
    assert.equal(usage.completion_tokens, answer.usage.completion_tokens);
  },

  async hanging_up() {
    const stream = await client.chat.completions.create({ model, messages: said("Tell me a story."), stream: true });
    for await (const chunk of stream) {
      assert.equal(chunk.object, "chat.completion.chunk");
      break; // The package drops the connection.
    }
    assert.equal((await client.models.list()).data[0].id, model);
  },

  async tools() {
    const asked = { model, messages: said("What is the weather in London and Tokyo?"), tools: [weather], temperature: 0, max_tokens: 120 };
    const answer = await client.chat.completions.create(asked);
    const calls = answer.choices[0].message.tool_calls;
    assert.equal(answer.choices[0].finish_reason, "tool_calls");
    assert.deepEqual(calls.map((call) => JSON.parse(call.function.arguments)), [{ city: "London" }, { city: "Tokyo" }]);
    const streamed = await client.chat.completions.stream(asked).finalChatCompletion();
    assert.deepEqual(
      streamed.choices[0].message.tool_calls.map((call) => call.function.arguments),
      calls.map((call) => call.function.arguments),
    );
    const asks = [];
    const run = (city) => ({
      type: "function",
      function: { ...weather.function, parse: JSON.parse, function: ({ city }) => (asks.push(city), '{"temperature": 21}') },
    });
    const runner = client.chat.completions.runTools({ ...asked, tools: [run()] }, { maxChatCompletions: 2 });
    await runner.done();
    assert.deepEqual(asks.slice(0, 2), ["London", "Tokyo"]);
  },

  async schema() {
    const answer = await client.chat.completions.parse({
      model, messages: said("Invent a person."), response_format: zodResponseFormat(Person, "person"), temperature: 0.8, seed: 2, max_tokens: 400,
    });
    const person = answer.choices[0].message.parsed;
    assert.ok(Person.safeParse(person).success, JSON.stringify(answer));
  },

  async responses() {
    const asked = { model, input: "What is kauri?", temperature: 0, max_output_tokens: 60 };
    const answer = await client.responses.create(asked);
    assert.match(answer.output_text, /inference engine/);
    let streamed = "";
    const kinds = [];
    for await (const event of await client.responses.create({ ...asked, stream: true })) {
      kinds.push(event.type);
      if (event.type === "response.output_text.delta") streamed += event.delta;
    }
    assert.equal(streamed, answer.output_text);
    assert.equal(kinds[0], "response.created");
    assert.equal(kinds.at(-1), "response.completed");
    const parsed = await client.responses.parse({
      model, input: "Invent a person.", text: { format: zodTextFormat(Person, "person") }, temperature: 0.8, max_output_tokens: 400, seed: 2,
    });
    assert.ok(Person.safeParse(parsed.output_parsed).success, JSON.stringify(parsed));
  },

  async embeddings() {
    const texts = ["The cat sat on the mat.", "A dog ran home.", "The cat sat on the mat."];
    const answer = await client.embeddings.create({ model, input: texts });
    const [first, second, third] = answer.data.map((item) => item.embedding);
    assert.deepEqual(first, third);
    assert.notDeepEqual(first, second);
    assert.ok(Math.abs(first.reduce((sum, value) => sum + value * value, 0) - 1) < 1e-3);
  },

  async errors() {
    for (const [field, value] of Object.entries({ temperature: -1, n: 0, max_tokens: 0 })) {
      await assert.rejects(
        client.chat.completions.create({ model, messages: said("?"), [field]: value }),
        (error) => error instanceof OpenAI.BadRequestError && error.param === field,
      );
    }
    await assert.rejects(client.models.retrieve("nobody"), OpenAI.NotFoundError);
  },
};

for (const [name, test] of Object.entries(tests)) {
  await test();
  console.log(`openai (npm): ${name}: as it should be`);
}
