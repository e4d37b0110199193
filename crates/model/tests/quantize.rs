//! Files that are written with fewer bits: whole or not there, the same however often the work was stopped, and as they were asked for.

use std::fs;
use std::path::{Path, PathBuf};

use kauri_formats::gguf::{Slot, Writer};
use kauri_formats::{Checkpoint, Metadata, Quant, Value};
use kauri_model::choose;
use kauri_model::draft::Draft;
use kauri_model::importance::Importance;
use kauri_model::mix::{self, Facts, MIXES, Mix};
use kauri_model::quantize::{self, Error, Work, Written};

/// A folder that is gone when the test is over.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("kauri-quantize-{name}-{}", std::process::id()));
        drop(fs::remove_dir_all(&path));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

/// A model of names and random weights: two layers, one with a stack of experts; `damaged` puts in a value that is no number.
fn source(folder: &Path, damaged: bool) -> Draft {
    let mut metadata = Metadata::default();
    let text = |text: &str| Value::String(text.to_owned());
    metadata.insert("general.architecture".to_owned(), text("llama"));
    for (key, value) in [("block_count", 2), ("attention.head_count", 8), ("attention.head_count_kv", 2)] {
        metadata.insert(format!("llama.{key}"), Value::Unsigned(value));
    }
    let tensors: [(&str, &[u64]); 8] = [
        ("token_embd.weight", &[300, 512]),
        ("blk.0.attn_norm.weight", &[512]),
        ("blk.0.attn_v.weight", &[128, 512]),
        ("blk.0.ffn_down.weight", &[512, 1280]),
        ("blk.0.ffn_gate_inp.weight", &[4, 512]),
        ("blk.1.attn_v.weight", &[128, 512]),
        ("blk.1.ffn_down_exps.weight", &[3, 40, 512]),
        ("blk.1.ffn_up.weight", &[64, 96]),
    ];
    let slots: Vec<Slot<'_>> = tensors.iter().map(|&(name, dims)| Slot { name, quant: Quant::F32, dims }).collect();
    let path = folder.join("source.gguf");
    let mut writer = Writer::new(fs::File::create(&path).unwrap(), &metadata, &slots).unwrap();
    let mut random = 1_u32;
    for (_, dims) in tensors {
        let count = dims.iter().product::<u64>();
        let mut value = |index: u64| {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let value = (random >> 8) as f32 / (1 << 24) as f32 - 0.5;
            if damaged && count > 200_000 && index == 77_777 { f32::NAN } else { value * value * value }
        };
        let bytes: Vec<u8> = (0..count).flat_map(|index| value(index).to_le_bytes()).collect();
        writer.data(&bytes).unwrap();
    }
    writer.finish().unwrap();
    Draft::of_gguf(&Checkpoint::open(&path).unwrap()).unwrap()
}

fn work<'a>(draft: &'a Draft, types: &'a [Quant], importance: Option<&'a Importance>) -> Work<'a> {
    let fingerprint = "a source".to_owned();
    Work { draft, types, importance, requantise: false, measure: true, threads: 3, fingerprint }
}

fn write(draft: &Draft, types: &[Quant], path: &Path) -> Written {
    quantize::write(&work(draft, types, None), path, &mut |_| true).unwrap_or_else(|error| panic!("{error}"))
}

fn files(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn every_mix_is_written_and_read_with_the_types_it_was_given() {
    let folder = Folder::new("mixes");
    let draft = source(&folder.0, false);
    for mix in MIXES {
        let types = mix::types(*mix, &draft.tensors, &Facts::of(&draft.metadata), false);
        let path = folder.0.join(format!("{}.gguf", mix.name));
        let written = write(&draft, &types, &path);
        assert_eq!(written.bytes, fs::metadata(&path).unwrap().len(), "{}", mix.name);
        let read = Checkpoint::open(&path).unwrap();
        for ((name, tensor), quant) in read.tensors.iter().zip(&types) {
            assert_eq!(tensor.quant, *quant, "{name} in {}", mix.name);
        }
        assert_eq!(read.tensors["blk.0.attn_norm.weight"].quant, Quant::F32);
        assert_eq!(read.tensors["blk.0.ffn_gate_inp.weight"].quant, Quant::F32);
    }
    let leftovers: Vec<String> = files(&folder.0).into_iter().filter(|name| name.contains("partial")).collect();
    assert!(leftovers.is_empty(), "{leftovers:?}");
}

#[test]
fn a_mix_gives_the_types_of_the_peer() {
    let folder = Folder::new("types");
    let draft = source(&folder.0, false);
    let types = |name| {
        let types = mix::types(Mix::named(name).unwrap(), &draft.tensors, &Facts::of(&draft.metadata), false);
        types.into_iter().map(Quant::name).collect::<Vec<_>>().join(" ")
    };
    // Of two layers, the second is the last eighth.
    assert_eq!(types("Q4_K_M"), "Q6_K F32 Q4_K Q4_K F32 Q6_K Q6_K Q5_0");
    assert_eq!(types("q4_k_s"), "Q6_K F32 Q5_K Q4_K F32 Q5_K Q4_K Q5_0");
    assert_eq!(types("Q3_K_M"), "Q6_K F32 Q5_K Q4_K F32 Q5_K Q4_K Q4_0");
    assert_eq!(types("Q2_K"), "Q6_K F32 Q4_K Q3_K F32 Q4_K Q3_K Q4_0");
    assert_eq!(types("IQ4_XS"), "Q6_K F32 Q5_K IQ4_XS F32 Q5_K IQ4_XS IQ4_NL");
    assert_eq!(types("MXFP4_MOE"), "Q8_0 F32 Q8_0 Q8_0 F32 Q8_0 MXFP4 Q8_0");
    assert_eq!(types("Q8_0"), "Q8_0 F32 Q8_0 Q8_0 F32 Q8_0 Q8_0 Q8_0");
}

#[test]
fn work_that_was_stopped_goes_on_and_gives_the_same_file() {
    let folder = Folder::new("stopped");
    let draft = source(&folder.0, false);
    let types = mix::types(Mix::named("Q4_K_M").unwrap(), &draft.tensors, &Facts::of(&draft.metadata), false);
    let whole = folder.0.join("whole.gguf");
    write(&draft, &types, &whole);
    let path = folder.0.join("stopped.gguf");
    let (mut stops, mut resumed) = (0, 0);
    loop {
        let mut steps = 0;
        let result = quantize::write(&work(&draft, &types, None), &path, &mut |_| {
            steps += 1;
            steps < 2
        });
        match result {
            Err(Error::Stopped) => {
                assert!(!path.exists(), "a half file under its own name");
                stops += 1;
                assert!(stops < 20, "it makes no progress");
            }
            Ok(written) => {
                resumed = resumed.max(written.resumed);
                break;
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert!(stops > 3 && resumed > 3, "{stops} stops, {resumed} tensors kept");
    assert_eq!(fs::read(&path).unwrap(), fs::read(&whole).unwrap());
    assert_eq!(files(&folder.0), ["source.gguf", "stopped.gguf", "whole.gguf"]);
}

#[test]
fn what_another_work_began_is_not_taken_for_ones_own() {
    let folder = Folder::new("other");
    let draft = source(&folder.0, false);
    let path = folder.0.join("file.gguf");
    let types = |name| mix::types(Mix::named(name).unwrap(), &draft.tensors, &Facts::of(&draft.metadata), false);
    let (first, second) = (types("Q8_0"), types("Q4_K_M"));
    let mut steps = 0;
    let stopped = quantize::write(&work(&draft, &first, None), &path, &mut |_| {
        steps += 1;
        steps < 4
    });
    assert!(matches!(stopped, Err(Error::Stopped)));
    assert_eq!(write(&draft, &second, &path).resumed, 0);
    let whole = folder.0.join("whole.gguf");
    write(&draft, &second, &whole);
    assert_eq!(fs::read(&path).unwrap(), fs::read(&whole).unwrap());
}

#[test]
fn a_damaged_source_and_impossible_types_are_refused_by_name() {
    let folder = Folder::new("refused");
    let path = folder.0.join("file.gguf");
    let refused = |draft: &Draft, types: &[Quant]| {
        let error = quantize::write(&work(draft, types, None), &path, &mut |_| true).unwrap_err().to_string();
        assert!(!path.exists());
        error
    };
    let draft = source(&folder.0, true);
    let q8 = mix::types(Mix::named("Q8_0").unwrap(), &draft.tensors, &Facts::of(&draft.metadata), false);
    assert!(refused(&draft, &q8).contains("blk.0.ffn_down.weight has a value that is no finite number"));
    let draft = source(&folder.0, false);
    let mut types = q8.clone();
    types[7] = Quant::Q4_K;
    assert!(refused(&draft, &types).contains("rows of 96 values cannot be Q4_K"));
    types[7] = Quant::IQ1_S;
    assert!(refused(&draft, &types).contains("no quantiser for IQ1_S"));
    let small = folder.0.join("q8.gguf");
    write(&draft, &q8, &small);
    let again = Draft::of_gguf(&Checkpoint::open(&small).unwrap()).unwrap();
    let q4 = mix::types(Mix::named("Q4_K_M").unwrap(), &again.tensors, &Facts::of(&again.metadata), false);
    assert!(refused(&again, &q4).contains("is Q8_0 already"));
}

#[test]
fn a_target_is_met_and_importance_moves_the_bits() {
    let folder = Folder::new("target");
    let draft = source(&folder.0, false);
    let float = quantize::file_bytes(&draft, &[Quant::F32; 8]).unwrap();
    let mut last = f64::INFINITY;
    for target in [float / 6, float / 5, float / 4] {
        let types = choose::types(&draft, None, target, &|_| 1.0, &mut |_, _| ()).unwrap();
        let bytes = quantize::file_bytes(&draft, &types).unwrap();
        assert!(bytes <= target && bytes * 10 >= target * 9, "{bytes} of {target}");
        let path = folder.0.join("file.gguf");
        let off = write(&draft, &types, &path).errors.iter().flatten().map(|[off, _]| off * off).sum::<f64>();
        assert!(off < last, "more bytes, no smaller error");
        last = off;
    }
    let error = choose::types(&draft, None, 1000, &|_| 1.0, &mut |_, _| ()).unwrap_err().to_string();
    assert!(error.contains("more than the 1000 asked for"), "{error}");
    // What a tensor is worth decides: the one that the model minds most gets the most bits.
    let minds =
        |name: &'static str| move |tensor: &kauri_model::draft::Planned| if tensor.name == name { 1e4 } else { 1.0 };
    for (index, name) in [(2, "blk.0.attn_v.weight"), (6, "blk.1.ffn_down_exps.weight")] {
        let types = choose::types(&draft, None, float / 6, &minds(name), &mut |_, _| ()).unwrap();
        assert!(matches!(types[index], Quant::Q8_0 | Quant::BF16), "{name}: {types:?}");
    }
}

#[test]
fn importance_lowers_the_error_that_matters() {
    let folder = Folder::new("importance");
    let draft = source(&folder.0, false);
    let mut seen = Importance::default();
    let row: Vec<f32> = (0..512).map(|column| if column % 16 == 0 { 8.0 } else { 0.1 }).collect();
    seen.add("blk.0.attn_v.weight", [0, 1], 512, std::iter::once(&row));
    let types: Vec<Quant> = draft
        .tensors
        .iter()
        .map(|tensor| if mix::may_change(tensor) { mix::fitting(Quant::Q3_K, tensor.columns()) } else { Quant::F32 })
        .collect();
    let error = |importance: Option<&Importance>| {
        let path = folder.0.join("file.gguf");
        quantize::write(&work(&draft, &types, importance), &path, &mut |_| true).unwrap();
        let read = Draft::of_gguf(&Checkpoint::open(&path).unwrap()).unwrap();
        let values = |draft: &Draft| {
            let checkpoint = Checkpoint::open(if std::ptr::eq(draft, &raw const read) {
                path.clone()
            } else {
                folder.0.join("source.gguf")
            })
            .unwrap();
            let tensor = &checkpoint.tensors["blk.0.attn_v.weight"];
            let mut values = vec![0.0; 128 * 512];
            tensor.quant.dequantise(&tensor.data, &mut values);
            values
        };
        let pairs = values(&read).into_iter().zip(values(&draft)).enumerate();
        pairs.map(|(index, (a, b))| f64::from((a - b) * row[index % 512]).powi(2)).sum::<f64>()
    };
    let (without, with) = (error(None), error(Some(&seen)));
    assert!(with < 0.8 * without, "{with} with importance, {without} without");
}
