//! What a Mac's compiler would be given: every kernel, translated as wgpu's Metal backend translates it, beside what it was when somebody
//! last read it. Nothing is executed here.
//!
//! `KAURI_WRITE_METAL=1 cargo test -p kauri-device-wgpu --test metal` writes the files again.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use kauri_device_wgpu::{Lanes, catalogue};
use naga::back::msl;
use naga::proc::{BoundsCheckPolicies, BoundsCheckPolicy};
use naga::valid::{Capabilities, ValidationFlags, Validator};

/// Buffers of every kernel.
const BINDINGS: u8 = 7;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/metal")
}

/// The kernel in Metal's language.
fn translate(name: &str, source: &str) -> String {
    let mut module =
        naga::front::wgsl::parse_str(source).unwrap_or_else(|error| panic!("{name}: {}", error.emit_to_string(source)));
    // What the kernel does not call, nobody need read.
    naga::compact::compact(&mut module, naga::compact::KeepUnused::No);
    let wanted = Capabilities::IMMEDIATES
        | Capabilities::SUBGROUP
        | Capabilities::SHADER_FLOAT16
        | Capabilities::SHADER_FLOAT16_IN_FLOAT32
        | Capabilities::COOPERATIVE_MATRIX;
    let mut validator = Validator::new(ValidationFlags::all(), wanted);
    let info = validator.validate(&module).unwrap_or_else(|error| panic!("{name}: {}", error.emit_to_string(source)));
    let stage = naga::ShaderStage::Compute;
    let (module, info) = naga::back::pipeline_constants::process_overrides(
        &module,
        &info,
        Some((stage, "main")),
        &naga::back::PipelineConstants::default(),
    )
    .unwrap_or_else(|error| panic!("{name}: {error}"));
    let target = |slot: u8| msl::BindTarget {
        buffer: Some(slot),
        mutable: slot == 0 || slot == BINDINGS - 1,
        ..msl::BindTarget::default()
    };
    let resource = |slot: u8| (naga::ResourceBinding { group: 0, binding: slot.into() }, target(slot));
    let resources = msl::EntryPointResources {
        resources: (0..BINDINGS).map(resource).collect(),
        immediates_buffer: Some(BINDINGS),
        sizes_buffer: Some(BINDINGS + 1),
    };
    let checked = BoundsCheckPolicy::Restrict;
    let options = msl::Options {
        // What Macs with Apple's own processors had first.
        lang_version: (2, 4),
        per_entry_point_map: BTreeMap::from([("main".to_owned(), resources)]),
        fake_missing_bindings: false,
        bounds_check_policies: BoundsCheckPolicies {
            index: checked,
            buffer: checked,
            image_load: checked,
            binding_array: BoundsCheckPolicy::Unchecked,
        },
        zero_initialize_workgroup_memory: false,
        force_loop_bounding: false,
        ..msl::Options::default()
    };
    let wanted = msl::PipelineOptions { entry_point: Some((stage, "main".to_owned())), ..Default::default() };
    let (text, _) =
        msl::write_string(&module, &info, &options, &wanted).unwrap_or_else(|error| panic!("{name}: {error}"));
    text
}

#[test]
fn translations_are_as_they_were_read() {
    let writes = std::env::var_os("KAURI_WRITE_METAL").is_some();
    let kernels = catalogue(Lanes::Subgroup(32));
    let mut files = BTreeSet::new();
    for (name, source) in &kernels {
        let (file, text) = (format!("{name}.metal"), translate(name, source));
        let path = folder().join(&file);
        files.insert(file);
        if writes {
            fs::create_dir_all(folder()).expect("a folder");
            fs::write(&path, text).expect("a file");
            continue;
        }
        let kept = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            kept == text,
            "{name} translates to something else than {}: read it, and write it again",
            path.display()
        );
    }
    let kept = fs::read_dir(folder()).expect("a folder");
    let kept: BTreeSet<_> =
        kept.map(|entry| entry.expect("a file").file_name().into_string().expect("a name")).collect();
    assert_eq!(kept, files, "a file for each kernel, and no other");
}

/// Without subgroups, and with every size of them that there is.
#[test]
fn every_way_of_adding_up_can_be_translated() {
    for lanes in [Lanes::Memory(8), Lanes::Memory(32), Lanes::Subgroup(4), Lanes::Subgroup(8), Lanes::Subgroup(16)] {
        for (name, source) in catalogue(lanes) {
            translate(&name, &source);
        }
    }
}
