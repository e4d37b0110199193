//! `kauri embed` and `kauri rerank`: what other programs read of them, and what is refused.

mod kauri;

use kauri::{kauri, output_of, read_json, repository};
use serde_json::Value as Json;

/// A tiny model among the goldens.
fn golden(name: &str) -> String {
    let path = repository().join("tests/golden/encoders").join(name);
    path.to_str().expect("UTF-8").to_owned()
}

/// The embedding of one line.
fn embedding(line: &str) -> Vec<f64> {
    let found: Json = serde_json::from_str(line).expect("JSON");
    found["embedding"].as_array().expect("a list").iter().map(|value| value.as_f64().expect("a number")).collect()
}

fn assert_near(found: &[f64], expected: &Json) {
    let expected: Vec<f64> = expected.as_array().expect("a list").iter().filter_map(Json::as_f64).collect();
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(&expected) {
        assert!((found - expected).abs() < 2e-3, "{found}, expected {expected}");
    }
}

#[test]
fn lines_become_the_vectors_of_the_reference() {
    let directory = golden("bert");
    let reference = read_json(&repository().join("tests/golden/encoders/bert/reference.json"));
    let texts = reference["texts"].as_array().expect("a list");
    let lines: Vec<&str> = texts.iter().map(|text| text["text"].as_str().expect("text")).collect();
    for model in [directory.clone(), format!("{directory}/model-bf16.gguf")] {
        let found = output_of(&["embed", "--model", &model, "--json"], lines.join("\n").as_bytes());
        assert_eq!(found.lines().count(), texts.len());
        for (line, text) in found.lines().zip(texts) {
            assert_near(&embedding(line), &text["pooled"]["cls"]);
            let tokens = serde_json::from_str::<Json>(line).expect("JSON")["tokens"].as_u64();
            assert_eq!(tokens, text["tokens"].as_array().map(|tokens| tokens.len() as u64));
        }
        let found = output_of(&["embed", "--model", &model, "--json", "--pooling", "mean", lines[0]], b"");
        assert_near(&embedding(found.trim_end()), &texts[0]["pooled"]["mean"]);
        let plain = output_of(&["embed", "--model", &model, lines[0], lines[1]], b"");
        let numbers: Vec<f64> = plain.lines().next().expect("a line").split(' ').map(|n| n.parse().unwrap()).collect();
        assert_near(&numbers, &texts[0]["pooled"]["cls"]);
        assert_eq!(plain.lines().count(), 2);
    }
}

#[test]
fn a_cut_vector_has_length_one_and_rows_stay_apart_where_asked() {
    let model = golden("bert");
    let cut =
        embedding(output_of(&["embed", "--model", &model, "--json", "--dimensions", "5", "milk"], b"").trim_end());
    assert_eq!(cut.len(), 5);
    assert!((cut.iter().map(|value| value * value).sum::<f64>() - 1.0).abs() < 1e-6);
    let rows = output_of(&["embed", "--model", &model, "--json", "--pooling", "none", "milk"], b"");
    let rows: Json = serde_json::from_str(&rows).expect("JSON");
    assert_eq!(rows["embedding"].as_array().expect("a list").len() as u64, rows["tokens"].as_u64().expect("a number"));
    let lines = output_of(&["embed", "--model", &model, "--pooling", "none", "milk", "the cat"], b"");
    assert_eq!(lines.lines().count(), 3 + 4);
}

#[test]
fn a_model_that_writes_makes_vectors_too() {
    let found = embedding(output_of(&["embed", "--json", "A lighthouse on a rock."], b"").trim_end());
    assert_eq!(found.len(), 512);
    let again = embedding(
        output_of(&["embed", "--json", "--threads", "1"], b"A lighthouse on a rock.\nRain.\n")
            .lines()
            .next()
            .expect("a line"),
    );
    assert_eq!(found, again);
}

#[test]
fn documents_come_the_best_first_with_the_scores_of_the_reference() {
    let reference = read_json(&repository().join("tests/golden/encoders/xlmrobertarank/reference.json"));
    let pair = &reference["pairs"][0];
    let [query, document] = ["query", "document"].map(|key| pair[key].as_str().expect("text"));
    let documents = format!("milk\n{document}\nthe sea\n");
    let model = golden("xlmrobertarank");
    let found = output_of(&["rerank", "--model", &model, "--json", query], documents.as_bytes());
    let found: Vec<Json> = found.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let scores: Vec<f64> = found.iter().map(|line| line["score"].as_f64().expect("a number")).collect();
    assert_eq!(scores.len(), 3);
    assert!(scores.is_sorted_by(|a, b| a >= b), "{scores:?}");
    let judged = found.iter().find(|line| line["index"] == 1).expect("the document");
    assert!((judged["score"].as_f64().expect("a number") - pair["score"].as_f64().expect("a number")).abs() < 2e-3);
    let best = output_of(&["rerank", "--model", &model, "--top", "1", query], documents.as_bytes());
    let line = documents.lines().nth(found[0]["index"].as_u64().expect("a number") as usize).expect("a line");
    assert_eq!(best, format!("{:.4}  {line}\n", scores[0]));
}

#[test]
fn inspection_says_how_a_model_pools() {
    let found: Json = serde_json::from_str(&output_of(&["inspect", "--json", &golden("bert")], b"")).expect("JSON");
    assert_eq!((&found["pooling"], &found["vector"], &found["writes"]), (&"cls".into(), &32.into(), &false.into()));
    let text = output_of(&["inspect", &golden("xlmrobertarank")], b"");
    assert!(text.contains("32 wide, pooling cls, and scores"), "{text}");
    assert!(text.contains("reads texts"), "{text}");
    let text = output_of(&["inspect"], b"");
    assert!(text.contains("512 wide, pooling last") && !text.contains("reads texts"), "{text}");
}

#[test]
fn bad_input_is_refused_in_one_line() {
    let (bert, rank) = (golden("bert"), golden("xlmrobertarank"));
    let long = "milk ".repeat(400);
    let embed = |more: &[&str]| {
        ["embed", "--model", &bert].into_iter().chain(more.iter().copied()).map(str::to_owned).collect::<Vec<_>>()
    };
    kauri(&embed(&[&long]), b"").refused("a long text", "text 1: the text has 402 tokens, but the window holds 128");
    kauri(&embed(&[]), format!("milk\n{long}").as_bytes())
        .refused("a long line", "standard input, line 2: the text has 402");
    kauri(&embed(&["milk", " "]), b"").refused("no text", "text 2 is empty");
    kauri(&embed(&[]), b"milk\n\nthe sea\n").refused("an empty line", "standard input, line 2 is empty");
    kauri(&embed(&[]), b"").refused("nothing", "standard input is empty");
    kauri(&embed(&[]), b"a\xff").refused("no UTF-8", "not UTF-8");
    kauri(&embed(&["--pooling", "max", "milk"]), b"").refused("a pooling that is not known", "mean, cls, last, none");
    kauri(&embed(&["--dimensions", "33", "milk"]), b"").refused("too many values", "1 to 32");
    kauri(&embed(&["--dimensions", "0", "milk"]), b"").refused("no values", "1 to 32");
    kauri(&embed(&["--context", "129", "milk"]), b"").refused("a window past the table", "trained for 1 to 128");
    kauri(&["rerank", "--model", &bert, "a query"], b"milk\n").refused("no reranker", "no reranker");
    kauri(&["rerank", "--model", &rank, " "], b"milk\n").refused("no query", "the query is empty");
    kauri(&["rerank", "--model", &rank, "a query"], b"").refused("no documents", "standard input is empty");
    let documents = format!("milk\n{long}\n");
    kauri(&["rerank", "--model", &rank, "a query"], documents.as_bytes())
        .refused("a long document", "standard input, line 2, with the query: the text has");
    kauri(&["run", "--model", &bert, "Hello?"], b"").refused("a question to an encoder", "only reads");
    kauri(&["run", &bert, "--raw", "Hello?"], b"").refused("a text for an encoder", "only reads");
}
