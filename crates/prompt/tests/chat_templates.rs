//! Chat templates against transformers: every rendering byte for byte, every refusal with its words. The repository's
//! own share always runs; the whole collection runs where it lies beside the repository.

use kauri_prompt::template::{Error, Json, Object, Template};
use std::path::{Path, PathBuf};

/// How many cases the repository's own share has.
const CASES: usize = 140;

#[test]
fn the_repositorys_share_renders_as_transformers_renders_it() {
    check(&repository().join("tests/golden/templates"), CASES);
}

#[test]
fn the_whole_collection_renders_as_transformers_renders_it() {
    let folder = repository().join("../shared/fixtures/templates");
    if !folder.exists() {
        eprintln!("skipped: {} is not there", folder.display());
        return;
    }
    check(&folder, 2964);
}

#[test]
fn expressions_and_statements_print_what_jinja2_prints() {
    let golden = read(&repository().join("tests/golden/templates/expressions.json"));
    let variables = member(&golden, "variables").as_object().unwrap();
    let mut failures = Vec::new();
    for case in items(member(&golden, "cases")) {
        let source = member(case, "source").as_str().unwrap();
        let expected = member(case, "expected").as_str().unwrap();
        match Template::compile(source).and_then(|template| template.render(variables)) {
            Ok(text) if text == expected => {}
            other => failures.push(format!("{source}: {other:?} instead of {expected:?}")),
        }
    }
    assert!(failures.is_empty(), "{} failed:\n{}", failures.len(), failures.join("\n"));
}

/// Renders every case under a folder and prints a table of what passed; fails if anything did not.
fn check(folder: &Path, cases_wanted: usize) {
    let index = read(&folder.join("index.json"));
    let conversations = read(&folder.join("conversations.json"));
    let mut failures = Vec::new();
    let mut total = 0;
    for entry in items(member(&index, "templates")) {
        let name = member(entry, "name").as_str().unwrap();
        let source = std::fs::read_to_string(folder.join(format!("jinja/{name}.jinja"))).unwrap();
        let template = Template::compile(&source).unwrap_or_else(|error| panic!("{name}: {error}"));
        let cases = read(&folder.join(format!("cases/{name}.json")));
        let cases = items(member(&cases, "cases"));
        let mut passed = 0;
        for case in cases {
            let id = member(case, "conversation");
            let conversation = items(&conversations).iter().find(|conversation| member(conversation, "id") == id);
            match outcome(&template, &variables(&index, conversation.unwrap(), case), case) {
                Ok(()) => passed += 1,
                Err(reason) => failures.push(format!("{name} {}: {reason}", id.as_str().unwrap())),
            }
        }
        println!("{name:60} {passed:3}/{}", cases.len());
        total += cases.len();
    }
    assert!(failures.is_empty(), "{} of {total} cases failed:\n{}", failures.len(), failures.join("\n"));
    assert_eq!(total, cases_wanted);
}

/// Whether the rendering is what the reference gave; what differs otherwise. Where the reference failed on a value
/// (not by the template's own words), any outcome but a panic will do.
fn outcome(template: &Template, variables: &Object, case: &Json) -> Result<(), String> {
    let case = case.as_object().unwrap();
    let rendered = template.render(variables);
    let joined =
        template.render_spans(variables).map(|spans| spans.into_iter().map(|span| span.text).collect::<String>());
    assert_eq!(rendered.is_ok(), joined.is_ok());
    match (case.get("expected").and_then(Json::as_str), rendered) {
        (Some(expected), Ok(text)) => {
            assert_eq!(joined.unwrap(), text);
            difference(&text, expected).map_or(Ok(()), Err)
        }
        (Some(_), Err(error)) => Err(error.to_string()),
        (None, rendered) => {
            let error = &case["error"];
            let wanted = member(error, "message").as_str().unwrap();
            match (member(error, "kind").as_str(), rendered) {
                (Some("runtime"), _) => Ok(()),
                (_, Err(Error::Raised { message })) if message == wanted => Ok(()),
                (_, rendered) => Err(format!("{rendered:?} instead of the refusal {wanted:?}")),
            }
        }
    }
}

fn difference(text: &str, expected: &str) -> Option<String> {
    if text == expected {
        return None;
    }
    let at = text.bytes().zip(expected.bytes()).take_while(|(a, b)| a == b).count();
    let around = |text: &str| {
        String::from_utf8_lossy(&text.as_bytes()[at.saturating_sub(20)..text.len().min(at + 60)]).into_owned()
    };
    Some(format!("at byte {at}: {:?} instead of {:?}", around(text), around(expected)))
}

fn variables(index: &Json, conversation: &Json, case: &Json) -> Object {
    let mut variables = member(conversation, "kwargs").as_object().unwrap().clone();
    for name in ["messages", "tools"] {
        variables.insert(name.to_owned(), member(conversation, name).clone());
    }
    for name in ["bos_token", "eos_token", "now"] {
        variables.insert(name.to_owned(), member(index, name).clone());
    }
    let prompt = member(case, "add_generation_prompt").clone();
    variables.insert("add_generation_prompt".to_owned(), prompt);
    variables
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &Path) -> Json {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    Json::parse(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn member<'a>(json: &'a Json, name: &str) -> &'a Json {
    &json.as_object().unwrap()[name]
}

fn items(json: &Json) -> &[Json] {
    match json {
        Json::Array(items) => items,
        _ => panic!("not an array"),
    }
}
