"""The anthropic package against a running server: messages, streams, tools, counts, errors."""

import sys

import anthropic

client = anthropic.Anthropic(base_url=sys.argv[1], api_key="none", max_retries=0)
MODEL = "kauri-nano"
GREEDY = {"temperature": 0}
WEATHER = {
    "name": "get_weather",
    "description": "Get the current weather for a city.",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}


def said(content):
    return [{"role": "user", "content": content}]


def messages():
    answer = client.messages.create(model=MODEL, messages=said("What is kauri?"), max_tokens=60, extra_body=GREEDY)
    assert answer.stop_reason == "end_turn" and "inference engine" in answer.content[0].text, answer
    with client.messages.stream(model=MODEL, messages=said("What is kauri?"), max_tokens=60, extra_body=GREEDY) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert text == answer.content[0].text == final.content[0].text
    assert final.usage.output_tokens == answer.usage.output_tokens
    cut = client.messages.create(
        model=MODEL, messages=said("What is kauri?"), max_tokens=60, extra_body=GREEDY, stop_sequences=["inference"]
    )
    assert cut.stop_reason == "stop_sequence" and cut.stop_sequence == "inference", cut
    count = client.messages.count_tokens(model=MODEL, messages=said("What is kauri?"))
    usage = answer.usage
    assert count.input_tokens == usage.input_tokens + usage.cache_read_input_tokens


def order():
    events = [
        event.type
        for event in client.messages.create(
            model=MODEL, messages=said("What is the weather in London and Tokyo?"), max_tokens=120, extra_body=GREEDY,
            tools=[WEATHER], stream=True,
        )
    ]
    assert events[0] == "message_start" and events[-2:] == ["message_delta", "message_stop"], events
    depth = 0
    for kind in events:
        depth += (kind == "content_block_start") - (kind == "content_block_stop")
        assert depth in (0, 1) and (kind != "content_block_delta" or depth == 1), events
    assert events.count("content_block_start") == 2


def tools():
    question = said("What is the weather in London and Tokyo?")
    answer = client.messages.create(model=MODEL, messages=question, max_tokens=120, extra_body=GREEDY, tools=[WEATHER])
    calls = [block for block in answer.content if block.type == "tool_use"]
    assert answer.stop_reason == "tool_use" and [call.input["city"] for call in calls] == ["London", "Tokyo"], answer
    results = [{"type": "tool_result", "tool_use_id": call.id, "content": '{"temperature": 21}'} for call in calls]
    history = question + [{"role": "assistant", "content": answer.content}, {"role": "user", "content": results}]
    again = client.messages.create(model=MODEL, messages=history, max_tokens=60, extra_body=GREEDY, tools=[WEATHER])
    assert again.content[0].text, again
    forced = client.messages.create(
        model=MODEL, messages=said("Hello!"), max_tokens=120, extra_body=GREEDY, tools=[WEATHER],
        tool_choice={"type": "tool", "name": "get_weather"},
    )
    assert "city" in next(block for block in forced.content if block.type == "tool_use").input


def errors():
    try:
        client.messages.create(model=MODEL, messages=said("?"), max_tokens=10, extra_body={"temperature": -1})
        raise AssertionError("temperature")
    except anthropic.BadRequestError as error:
        assert "temperature" in str(error), error


for test in (messages, order, tools, errors):
    test()
    print(f"anthropic: {test.__name__}: as it should be")
