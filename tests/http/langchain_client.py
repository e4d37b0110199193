"""LangChain's chat model for OpenAI's protocol against a running server: answers, streams, tools, structured output."""

import sys

from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel

URL = sys.argv[1] + "/v1"


@tool
def get_weather(city: str) -> str:
    """Get the current weather for a city."""
    return '{"temperature": 21}'


class Person(BaseModel):
    """A person."""

    name: str
    age: int


model = ChatOpenAI(base_url=URL, api_key="none", model="kauri-nano", temperature=0, max_tokens=120, max_retries=0)
answer = model.invoke("What is kauri?")
assert "inference engine" in answer.content, answer
assert "".join(chunk.content for chunk in model.stream("What is kauri?")) == answer.content
question = HumanMessage("What is the weather in London and Tokyo?")
called = model.bind_tools([get_weather]).invoke([question])
assert [call["args"]["city"] for call in called.tool_calls] == ["London", "Tokyo"], called
results = [ToolMessage(get_weather.invoke(call["args"]), tool_call_id=call["id"]) for call in called.tool_calls]
assert model.bind_tools([get_weather]).invoke([question, called, *results]).content
person = model.with_structured_output(Person, method="json_schema").invoke("Invent a person.")
assert isinstance(person, Person), person
print("langchain: answers, streams, tools, structured output: as it should be")
