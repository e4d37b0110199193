"""The ollama package against a running server: chat, generate, streams, tools, formats, embeddings, models."""

import json
import sys

import ollama

client = ollama.Client(host=sys.argv[1])
MODEL = "kauri-nano"
GREEDY = {"temperature": 0, "num_predict": 60}


def get_weather(city: str) -> str:
    """Get the current weather for a city.

    Args:
        city: The city.
    """
    return '{"temperature": 21}'


def said(content):
    return [{"role": "user", "content": content}]


def chat():
    answer = client.chat(MODEL, said("What is kauri?"), options=GREEDY)
    assert "inference engine" in answer.message.content and answer.done_reason == "stop", answer
    pieces = list(client.chat(MODEL, said("What is kauri?"), options=GREEDY, stream=True))
    assert "".join(piece.message.content for piece in pieces) == answer.message.content
    assert pieces[-1].done and pieces[-1].eval_count == answer.eval_count
    assert client.generate(MODEL, "What is kauri?", options=GREEDY).response == answer.message.content
    raw = client.generate(MODEL, "Once upon a time", raw=True, options=GREEDY)
    assert raw.response.startswith(", there was"), raw


def tools():
    question = said("What is the weather in London and Tokyo?")
    answer = client.chat(MODEL, question, tools=[get_weather], options={"temperature": 0, "num_predict": 120})
    calls = answer.message.tool_calls
    assert [call.function.arguments["city"] for call in calls] == ["London", "Tokyo"], answer
    results = [{"role": "tool", "tool_name": "get_weather", "content": get_weather(**call.function.arguments)} for call in calls]
    again = client.chat(MODEL, question + [answer.message] + results, tools=[get_weather], options=GREEDY)
    assert again.message.content, again


def formats():
    schema = {"type": "object", "properties": {"age": {"type": "integer", "maximum": 120}}, "required": ["age"], "additionalProperties": False}
    answer = client.chat(MODEL, said("Invent an age."), format=schema, options={"temperature": 1, "num_predict": 100})
    assert json.loads(answer.message.content)["age"] <= 120, answer


def models():
    assert [model.model for model in client.list().models] == [MODEL]
    assert [model.model for model in client.ps().models] == [MODEL]
    shown = client.show(MODEL)
    assert shown.details.family == "qwen3" and "tools" in shown.capabilities, shown
    vectors = client.embed(MODEL, ["one", "two", "one"]).embeddings
    assert vectors[0] == vectors[2] != vectors[1]


def errors():
    try:
        client.chat(MODEL, said("?"), options={"temperature": -1})
        raise AssertionError("temperature")
    except ollama.ResponseError as error:
        assert error.status_code == 400 and "temperature" in error.error, error


for test in (chat, tools, formats, models, errors):
    test()
    print(f"ollama: {test.__name__}: as it should be")
