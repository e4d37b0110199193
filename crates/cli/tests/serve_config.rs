//! `kauri serve --config`: a file of options, models and keys, and SIGHUP, which reads models and keys again.

mod kauri;

use std::fmt::Write;
use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use kauri::kauri;
use kauri::server::Server;

const ALICE: &str = "sk-alice-0123456789";
const BOB: &str = "sk-bob-0123456789ab";

fn write(file: &Path, models: &[&str], keys: &[&str]) {
    let mut text = "context = 64\n[models]\n".to_owned();
    for model in models {
        _ = writeln!(text, "{model} = \"kauri-nano\"");
    }
    for (index, key) in keys.iter().enumerate() {
        _ = writeln!(text, "[[keys]]\nname = \"key{index}\"\nkey = \"{key}\"");
    }
    fs::write(file, text).expect("written");
}

/// The status of a request with a key, and the names of the models that it gets.
fn models(server: &Server, key: &str) -> (u16, Vec<String>) {
    let said = server.request("GET", "/v1/models", &[("x-api-key", key)], "");
    let names = |said: &kauri::server::Said| {
        let list = said.json()["data"].as_array().cloned().unwrap_or_default();
        list.iter().filter_map(|model| model["id"].as_str().map(str::to_owned)).collect()
    };
    (said.status, if said.status == 200 { names(&said) } else { Vec::new() })
}

fn hang_up(server: &Server) {
    let id = server.id().to_string();
    assert!(Command::new("kill").args(["-HUP", &id]).status().expect("kill runs").success());
}

#[test]
fn models_and_keys_are_read_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("kauri.toml");
    write(&file, &["one"], &[ALICE]);
    let server = Server::start(&["--config", file.to_str().expect("a name")]);
    assert_eq!(models(&server, ALICE), (200, vec!["one".to_owned()]));
    assert_eq!(models(&server, BOB).0, 401);

    // What is wrong changes nothing, not even in part.
    write(&file, &["one", "two"], &[BOB, "short"]);
    hang_up(&server);
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(models(&server, ALICE), (200, vec!["one".to_owned()]));

    write(&file, &["two", "one"], &[BOB]);
    hang_up(&server);
    let start = Instant::now();
    while models(&server, BOB).0 != 200 {
        assert!(start.elapsed() < Duration::from_mins(1), "it does not read again");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(models(&server, BOB), (200, vec!["two".to_owned(), "one".to_owned()]));
    assert_eq!(models(&server, ALICE).0, 401);
    let body = r#"{"model": "two", "max_tokens": 2, "messages": [{"role": "user", "content": "Hello"}]}"#;
    let said = server.request("POST", "/v1/chat/completions", &[("x-api-key", BOB)], body);
    assert_eq!(
        (said.status, said.json()["model"].as_str().map(str::to_owned)),
        (200, Some("two".to_owned())),
        "{}",
        said.body
    );
}

#[test]
fn reading_again_brings_nothing_here_and_asks_nobody() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("kauri.toml");
    let text = |more: &str| format!("yes = true\ncontext = 64\nmodels = [\"one=kauri-nano\"{more}]\n");
    fs::write(&file, text("")).expect("written");
    let hub = TcpListener::bind("127.0.0.1:0").expect("a free port");
    hub.set_nonblocking(true).expect("it can be asked");
    let address = format!("http://{}", hub.local_addr().expect("an address"));
    let server = Server::start_as(&["--config", file.to_str().expect("a name")], |command| {
        for name in ["HF_HOME", "HF_HUB_CACHE", "HF_TOKEN_PATH", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"] {
            command.env_remove(name);
        }
        command.env("HOME", folder.path()).env("HF_ENDPOINT", address).env("NO_PROXY", "*");
    });
    // At the start it would be pulled: the file says yes.
    fs::write(&file, text(", \"two=hf:somebody/something-GGUF:Q8_0\"")).expect("written");
    hang_up(&server);
    let said = server.wait_for_word("nothing is changed");
    assert!(
        said.contains("hf:somebody/something-GGUF:Q8_0 is not on this machine") && said.contains("kauri pull"),
        "{said}"
    );
    assert_eq!(models(&server, ALICE), (200, vec!["one".to_owned()]));
    let asked = hub.accept().expect_err("the hub is asked");
    assert_eq!(asked.kind(), std::io::ErrorKind::WouldBlock);
    // What is here is taken up.
    fs::write(&file, text(", \"two=kauri-nano\"")).expect("written");
    hang_up(&server);
    server.wait_for_word("read again: 2 models");
    assert_eq!(models(&server, ALICE), (200, vec!["one".to_owned(), "two".to_owned()]));
}

#[test]
fn a_file_that_is_wrong_is_refused_with_its_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("kauri.toml");
    let name = file.to_str().expect("a name");
    fs::write(&file, "context = 64\nprot = 9000\n").expect("written");
    kauri(&["serve", "--config", name], b"")
        .refused("an unknown key", "line 2: prot: there is no such key; is port meant?");
    fs::write(&file, "host = \"0.0.0.0\"\nport = 0\n").expect("written");
    kauri(&["serve", "--config", name], b"").refused("open to all", "--api-key-file");
    kauri(&["serve", "--config", "nowhere.toml"], b"").refused("no file", "nowhere.toml");
}
