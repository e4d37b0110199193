"""The openai package against a running server: chat, streams, tools, schemas, completions, models, errors."""

import json
import sys

import openai
from pydantic import BaseModel

client = openai.OpenAI(base_url=sys.argv[1] + "/v1", api_key="none", max_retries=0)
MODEL = "kauri-nano"
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the current weather for a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "description": "The city."}},
            "required": ["city"],
        },
    },
}


def said(content):
    return [{"role": "user", "content": content}]


def chat():
    answer = client.chat.completions.create(model=MODEL, messages=said("What is kauri?"), temperature=0, max_tokens=60)
    text = answer.choices[0].message.content
    assert "inference engine" in text, text
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    chunks = list(
        client.chat.completions.create(
            model=MODEL, messages=said("What is kauri?"), temperature=0, max_tokens=60, stream=True,
            stream_options={"include_usage": True},
        )
    )
    pieces = [choice.delta.content or "" for chunk in chunks for choice in chunk.choices]
    assert "".join(pieces) == text, pieces
    assert chunks[-1].usage.completion_tokens == answer.usage.completion_tokens
    assert chunks[-2].choices[0].finish_reason == "stop"


def several():
    answer = client.chat.completions.create(
        model=MODEL, messages=said("Tell me a story."), temperature=1, seed=1, n=2, max_tokens=20, logprobs=True, top_logprobs=3
    )
    first, second = answer.choices
    assert first.message.content != second.message.content
    assert len(first.logprobs.content) == 20 and len(first.logprobs.content[0].top_logprobs) == 3


def tools():
    question = said("What is the weather in London and Tokyo?")
    answer = client.chat.completions.create(model=MODEL, messages=question, tools=[WEATHER], temperature=0, max_tokens=120)
    calls = answer.choices[0].message.tool_calls
    assert answer.choices[0].finish_reason == "tool_calls"
    assert [json.loads(call.function.arguments) for call in calls] == [{"city": "London"}, {"city": "Tokyo"}], calls
    results = [{"role": "tool", "tool_call_id": call.id, "content": '{"temperature": 21}'} for call in calls]
    history = question + [answer.choices[0].message] + results
    again = client.chat.completions.create(model=MODEL, messages=history, tools=[WEATHER], temperature=0, max_tokens=60)
    assert again.choices[0].message.content
    assert again.usage.prompt_tokens_details.cached_tokens >= 32, again.usage
    with client.chat.completions.stream(
        model=MODEL, messages=question, tools=[WEATHER], temperature=0, max_tokens=120
    ) as stream:
        final = stream.get_final_completion()
    arguments = [call.function.arguments for call in final.choices[0].message.tool_calls]
    assert arguments == [call.function.arguments for call in calls], arguments
    forced = client.chat.completions.create(
        model=MODEL, messages=said("Hello!"), tools=[WEATHER], temperature=0, max_tokens=120,
        tool_choice={"type": "function", "function": {"name": "get_weather"}},
    )
    assert "city" in json.loads(forced.choices[0].message.tool_calls[0].function.arguments)


class Person(BaseModel):
    name: str
    age: int
    likes: list[str]


def schema():
    answer = client.chat.completions.parse(
        model=MODEL, messages=said("Invent a person."), response_format=Person, temperature=0.8, seed=2, max_tokens=400
    )
    person = answer.choices[0].message.parsed
    assert isinstance(person, Person) and isinstance(person.age, int), answer


def completions():
    answer = client.completions.create(model=MODEL, prompt="Once upon a time", temperature=0, max_tokens=8, echo=True, logprobs=2)
    assert answer.choices[0].text.startswith("Once upon a time"), answer
    assert len(answer.choices[0].logprobs.tokens) == 8
    stream = client.completions.create(model=MODEL, prompt="Once upon a time", temperature=0, max_tokens=8, stream=True)
    text = "".join(chunk.choices[0].text for chunk in stream)
    assert "Once upon a time" + text == answer.choices[0].text, text


def embeddings():
    texts = ["The cat sat on the mat.", "A dog ran home.", "The cat sat on the mat."]
    answer = client.embeddings.create(model=MODEL, input=texts)
    vectors = [item.embedding for item in answer.data]
    assert vectors[0] == vectors[2] != vectors[1]
    assert abs(sum(value * value for value in vectors[0]) - 1) < 1e-3
    plain = client.embeddings.create(model=MODEL, input=texts[0], encoding_format="float", dimensions=8).data[0].embedding
    assert len(plain) == 8 and abs(sum(value * value for value in plain) - 1) < 1e-3


def responses():
    answer = client.responses.create(model=MODEL, input="What is kauri?", temperature=0, max_output_tokens=60)
    assert "inference engine" in answer.output_text, answer
    events = list(
        client.responses.create(model=MODEL, input="What is kauri?", temperature=0, max_output_tokens=60, stream=True)
    )
    assert events[0].type == "response.created" and events[-1].type == "response.completed", [e.type for e in events]
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert text == answer.output_text == events[-1].response.output_text
    assert [event.sequence_number for event in events] == list(range(len(events)))
    tool = {"type": "function", "strict": True, **WEATHER["function"]}
    question = [{"role": "user", "content": "What is the weather in London and Tokyo?"}]
    called = client.responses.create(model=MODEL, input=question, tools=[tool], temperature=0, max_output_tokens=120)
    calls = [item for item in called.output if item.type == "function_call"]
    assert [json.loads(call.arguments)["city"] for call in calls] == ["London", "Tokyo"], called
    results = [{"type": "function_call_output", "call_id": call.call_id, "output": '{"temperature": 21}'} for call in calls]
    history = question + [item.model_dump(exclude_none=True) for item in called.output] + results
    again = client.responses.create(model=MODEL, input=history, tools=[tool], temperature=0, max_output_tokens=60)
    assert again.output_text, again
    parsed = client.responses.parse(
        model=MODEL, input="Invent a person.", text_format=Person, temperature=0.8, max_output_tokens=400,
        extra_body={"seed": 2},
    )
    assert isinstance(parsed.output_parsed, Person), parsed


def errors():
    for more in [{"temperature": -1}, {"n": 0}, {"max_tokens": 0}]:
        try:
            client.chat.completions.create(model=MODEL, messages=said("?"), **more)
            raise AssertionError(more)
        except openai.BadRequestError as error:
            assert error.param in more, error
    try:
        client.models.retrieve("nobody")
        raise AssertionError("nobody")
    except openai.NotFoundError:
        pass
    assert [model.id for model in client.models.list()] == [MODEL]


TESTS = {name: test for name, test in globals().items() if callable(test) and test.__module__ == __name__ and not isinstance(test, type)}
TESTS.pop("said")
for name, test in TESTS.items():
    test()
    print(f"openai: {name}: as it should be")
