//! `kauri show`: what is known of a model before it is pulled.

use std::io::Write;

use clap::Args;
use kauri_engine::local;
use serde_json::{Map, Value as Json, json};

use crate::library::Library;
use crate::terminal::{self, HEADING};

/// Says what a name stands for: the model, its quantisations, its terms, and where its files come from. kauri inspect looks into a file.
#[derive(Args, Debug)]
pub struct Arguments {
    /// A name, or a path.
    #[arg(value_name = "NAME")]
    name: String,

    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let library = Library::open()?;
    let reference = library.parse(&arguments.name)?;
    let path = local::find(&library.places, &reference).filter(|path| path.exists());
    let mut fields = Map::new();
    fields.insert("name".to_owned(), json!(arguments.name));
    let target = library.catalog.aliases().get(&arguments.name);
    let word = target.map_or(arguments.name.as_str(), String::as_str);
    if let Some(target) = target {
        fields.insert("stands_for".to_owned(), json!(target));
    }
    if let Some((model, quant)) = library.catalog.model(word) {
        let mut put = |name: &str, value: Json| fields.insert(name.to_owned(), value);
        put("model", json!(model.name));
        put("also", json!(model.aliases));
        put("family", json!(model.family));
        put("purpose", json!(model.purpose.word()));
        put("parameters", json!(model.parameters_b * 1e9));
        put("active_parameters", json!(model.active_parameters_b.unwrap_or(model.parameters_b) * 1e9));
        put("context_tokens", json!(model.context_tokens));
        put("licence", json!(model.licence));
        put("quirks", json!(model.quirks));
        put("repository", json!(model.repository));
        let files = model.quants.iter().filter(|(name, _)| quant.as_ref().is_none_or(|quant| quant == *name)).map(
            |(quant, gigabytes)| json!({ "quant": quant, "approximate_bytes": gigabytes * 1e9, "file": model.file.replace("{quant}", quant) }),
        );
        put("files", Json::Array(files.collect()));
    }
    fields.insert("path".to_owned(), json!(path));
    let mut out = anstream::stdout().lock();
    if arguments.json {
        writeln!(out, "{}", Json::Object(fields))?;
        return Ok(());
    }
    for (name, value) in &fields {
        let text = match value {
            Json::String(text) if text.is_empty() => continue,
            Json::String(text) => text.clone(),
            Json::Number(number) if name.ends_with("parameters") => {
                terminal::count(number.as_f64().unwrap_or(0.0) as u64)
            }
            Json::Number(number) => number.to_string(),
            Json::Array(list) if list.is_empty() => continue,
            Json::Array(list) => list.iter().map(shown).collect::<Vec<_>>().join(", "),
            Json::Null => "not on this machine (kauri pull brings it)".to_owned(),
            Json::Bool(_) | Json::Object(_) => value.to_string(),
        };
        let name = name.replace('_', " ");
        writeln!(out, "{HEADING}{name:<18}{HEADING:#} {}", terminal::printable(&text))?;
    }
    Ok(())
}

fn shown(value: &Json) -> String {
    match (value.as_str(), value.get("quant").and_then(Json::as_str)) {
        (Some(text), _) => text.to_owned(),
        (None, Some(quant)) => {
            let bytes = value.get("approximate_bytes").and_then(Json::as_f64).unwrap_or(0.0);
            format!("{quant} (about {})", terminal::bytes(bytes as u64))
        }
        (None, None) => value.to_string(),
    }
}
