//! What a response looks like, for the `OpenAPI` document alone: its value is a frame that fills as the answer is written.
#![expect(dead_code, reason = "schemas alone are wanted")]

use serde_json::Value;
use utoipa::ToSchema;

use crate::document::schema;

#[derive(ToSchema)]
pub struct Response {
    id: String,
    #[schema(pattern = "^response$")]
    object: String,
    created_at: u64,
    #[schema(schema_with = status_schema)]
    status: String,
    background: bool,
    #[schema(schema_with = nothing_schema, required = true)]
    error: Option<()>,
    #[schema(required = true)]
    incomplete_details: Option<IncompleteDetails>,
    #[schema(required = true)]
    instructions: Option<String>,
    #[schema(required = true)]
    max_output_tokens: Option<u64>,
    model: String,
    output: Vec<Item>,
    parallel_tool_calls: bool,
    #[schema(schema_with = nothing_schema, required = true)]
    previous_response_id: Option<()>,
    reasoning: Reasoning,
    store: bool,
    #[schema(required = true)]
    temperature: Option<f64>,
    text: Text,
    /// As it was sent.
    tool_choice: Value,
    /// As they were sent.
    tools: Value,
    #[schema(required = true)]
    top_p: Option<f64>,
    truncation: String,
    usage: Usage,
    #[schema(schema_with = nothing_schema, required = true)]
    user: Option<()>,
    #[schema(value_type = Object)]
    metadata: Value,
}

schema!(status_schema, { "type": "string", "enum": ["completed", "incomplete"] });
schema!(nothing_schema, { "type": "null" });

#[derive(ToSchema)]
#[schema(as = ResponseIncompleteDetails)]
struct IncompleteDetails {
    #[schema(pattern = "^max_output_tokens$")]
    reason: String,
}

#[derive(ToSchema)]
#[schema(as = ResponseSaidReasoning)]
struct Reasoning {
    effort: Option<String>,
    summary: Option<String>,
}

#[derive(ToSchema)]
#[schema(as = ResponseSaidText)]
struct Text {
    /// As it was sent.
    format: Value,
}

#[derive(ToSchema)]
#[schema(as = ResponseUsage)]
struct Usage {
    input_tokens: u64,
    input_tokens_details: InputDetails,
    output_tokens: u64,
    output_tokens_details: OutputDetails,
    total_tokens: u64,
}

#[derive(ToSchema)]
#[schema(as = ResponseInputDetails)]
struct InputDetails {
    cached_tokens: u64,
}

#[derive(ToSchema)]
#[schema(as = ResponseOutputDetails)]
struct OutputDetails {
    reasoning_tokens: u64,
}

/// Part of an answer.
#[derive(ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[schema(as = ResponseItem)]
enum Item {
    Message { id: String, status: String, role: String, content: Vec<Part> },
    Reasoning { id: String, summary: Vec<Value>, content: Vec<Part> },
    FunctionCall { id: String, status: String, call_id: String, name: String, arguments: String },
}

#[derive(ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[schema(as = ResponsePart)]
enum Part {
    OutputText { text: String, annotations: Vec<Value>, logprobs: Vec<Value> },
    ReasoningText { text: String },
}

/// An event of a stream: its type and number, and what belongs to it.
#[derive(ToSchema)]
#[schema(as = ResponseEvent)]
pub struct Event {
    #[schema(rename = "type")]
    kind: String,
    sequence_number: u64,
}
