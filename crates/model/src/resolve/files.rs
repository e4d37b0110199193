//! Which files of a repository are the model: one quantisation of several, all parts of it, or a safetensors directory.

use std::collections::BTreeMap;

use super::names::{HubName, ends_with, is_pickle};

/// Quantisations in the order in which they are preferred when nobody names one: what costs little quality first, smaller ones where that
/// does not fit, larger ones where there is nothing else.
pub const QUANTS_PREFERRED: [&str; 34] = [
    "Q4_K_M",
    "UD-Q4_K_XL",
    "MXFP4",
    "MXFP4_MOE",
    "Q4_K_S",
    "Q4_K_L",
    "IQ4_NL",
    "IQ4_XS",
    "Q4_1",
    "Q4_0",
    "UD-Q3_K_XL",
    "Q3_K_L",
    "Q3_K_M",
    "IQ3_M",
    "IQ3_S",
    "Q3_K_S",
    "IQ3_XS",
    "IQ3_XXS",
    "UD-Q2_K_XL",
    "Q2_K_L",
    "Q2_K",
    "IQ2_M",
    "IQ2_S",
    "IQ2_XS",
    "IQ2_XXS",
    "IQ1_M",
    "IQ1_S",
    "Q5_K_M",
    "Q5_K_S",
    "Q6_K",
    "Q8_0",
    "BF16",
    "F16",
    "F32",
];

/// A file of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its name, from the top of the repository.
    pub path: String,
    /// How large it is.
    pub bytes: u64,
}

/// The files that are the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Their places in the list.
    pub files: Vec<usize>,
    /// The file that is loaded; the whole directory where unset.
    pub source: Option<String>,
    /// The quantisation, where the name says it.
    pub quant: Option<String>,
}

/// One model among the GGUF files of a repository.
struct Group {
    quant: Option<String>,
    bytes: u64,
    /// Index and name; all parts, in order.
    files: Vec<usize>,
    source: String,
}

/// Chooses what `name` asks for.
///
/// # Errors
/// Why there is nothing to choose, with what there is.
pub fn choose(files: &[Listed], name: &HubName, budget_bytes: Option<u64>) -> Result<Choice, String> {
    let groups = groups(files);
    if let Some(wanted) = &name.file {
        let group = groups.into_iter().find(|group| group.files.iter().any(|&index| files[index].path == *wanted));
        let group = group.ok_or_else(|| format!("there is no model file {wanted} in it"))?;
        return Ok(Choice { files: group.files, source: Some(group.source), quant: group.quant });
    }
    if groups.is_empty() {
        return directory(files, name.quant.as_deref());
    }
    let labels: Vec<&str> = groups.iter().filter_map(|group| group.quant.as_deref()).collect();
    let labels = labels.join(", ");
    let chosen = match &name.quant {
        Some(quant) => {
            let same = |group: &&Group| group.quant.as_deref() == Some(quant);
            groups.iter().find(same).ok_or_else(|| format!("there is no {quant} in it; there are: {labels}"))?
        }
        None => preferred(&groups, budget_bytes).ok_or("there is no model in it")?,
    };
    Ok(Choice { files: chosen.files.clone(), source: Some(chosen.source.clone()), quant: chosen.quant.clone() })
}

/// The first of the preferred quantisations that is within the budget; where none is, the smallest.
fn preferred(groups: &[Group], budget_bytes: Option<u64>) -> Option<&Group> {
    let rank = |group: &Group| {
        let known = group.quant.as_deref().and_then(|quant| QUANTS_PREFERRED.iter().position(|known| *known == quant));
        known.unwrap_or(QUANTS_PREFERRED.len())
    };
    let fits = groups.iter().filter(|group| budget_bytes.is_none_or(|budget| group.bytes <= budget));
    fits.min_by_key(|group| rank(group)).or_else(|| groups.iter().min_by_key(|group| group.bytes))
}

/// The models among GGUF files: those of a split one together, all of them there. Projectors of pictures and matrices of importance are none.
fn groups(files: &[Listed]) -> Vec<Group> {
    let mut groups: BTreeMap<String, (usize, Vec<(usize, usize)>)> = BTreeMap::new();
    for (index, file) in files.iter().enumerate() {
        let lower = file.path.to_ascii_lowercase();
        let base = lower.rsplit('/').next().unwrap_or_default();
        if !ends_with(&lower, "gguf") || base.starts_with("mmproj") || base.contains("imatrix") {
            continue;
        }
        let stem = &file.path[..file.path.len() - ".gguf".len()];
        let (stem, part, count) = parts(stem).unwrap_or((stem, 1, 1));
        let group = groups.entry(format!("{stem}/{count}")).or_insert((count, Vec::new()));
        group.1.push((part, index));
    }
    let whole = groups.into_values().filter_map(|(count, mut parts)| {
        parts.sort_unstable();
        let is_whole = parts.len() == count && parts.iter().enumerate().all(|(place, (part, _))| *part == place + 1);
        let first = &files[parts.first()?.1];
        is_whole.then(|| Group {
            quant: quant_of(&first.path),
            // What a listing says of sizes may be anything.
            bytes: parts.iter().fold(0, |sum, &(_, index)| sum.saturating_add(files[index].bytes)),
            files: parts.iter().map(|&(_, index)| index).collect(),
            source: first.path.clone(),
        })
    });
    whole.collect()
}

/// `name-00001-of-00003` as its name, 1 and 3.
fn parts(stem: &str) -> Option<(&str, usize, usize)> {
    let (rest, count) = stem.rsplit_once("-of-")?;
    let (name, part) = rest.rsplit_once('-')?;
    let number = |digits: &str| (digits.len() == 5).then(|| digits.parse().ok()).flatten();
    Some((name, number(part)?, number(count)?))
}

/// A safetensors directory: weights, settings and vocabulary at the top of the repository.
fn directory(files: &[Listed], quant: Option<&str>) -> Result<Choice, String> {
    if let Some(quant) = quant {
        return Err(format!("there is no {quant} in it, and no GGUF file at all"));
    }
    let is_part = |file: &Listed| {
        let known = [
            "config.json",
            "generation_config.json",
            "model.safetensors.index.json",
            "chat_template.jinja",
            "chat_template.json",
        ];
        let name = file.path.as_str();
        known.contains(&name)
            || name == "1_Pooling/config.json"
            || (!name.contains('/')
                && (name.ends_with(".safetensors") || (name.starts_with("tokenizer") && !is_pickle(name))))
            || ["special_tokens_map.json", "vocab.json", "merges.txt", "added_tokens.json"].contains(&name)
    };
    let chosen: Vec<usize> = (0..files.len()).filter(|&index| is_part(&files[index])).collect();
    if chosen.iter().any(|&index| files[index].path.ends_with(".safetensors")) {
        return Ok(Choice { files: chosen, source: None, quant: None });
    }
    match files.iter().find(|file| is_pickle(&file.path)) {
        Some(file) => Err(format!(
            "its weights are pickles ({}); reading one can run code, so kauri never does: look for the model in safetensors or GGUF",
            file.path
        )),
        None => Err("there is no GGUF and no safetensors file in it".to_owned()),
    }
}

/// The quantisation that the name of a file says, in capitals.
pub fn quant_of(path: &str) -> Option<String> {
    let base = path.rsplit('/').next().unwrap_or_default();
    let stem = base.strip_suffix(".gguf").unwrap_or(base);
    let stem = parts(stem).map_or(stem, |(stem, ..)| stem);
    let upper = stem.to_ascii_uppercase();
    let starts = (0..upper.len()).filter(|&at| at == 0 || matches!(upper.as_bytes()[at - 1], b'-' | b'.'));
    starts.filter_map(|at| upper.get(at..)).find(|rest| is_quant(rest)).map(str::to_owned)
}

/// Whether a word is a quantisation's name.
pub fn is_quant(word: &str) -> bool {
    let upper = word.to_ascii_uppercase();
    let bare = upper.strip_prefix("UD-").unwrap_or(&upper);
    let numbered = ["IQ", "TQ", "Q"].iter().find_map(|start| bare.strip_prefix(start));
    let is_numbered = numbered.is_some_and(|rest| {
        let mut letters = rest.chars();
        letters.next().is_some_and(|digit| ('1'..='8').contains(&digit))
            && letters.next() == Some('_')
            && rest.len() > 2
            && letters.all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
    });
    is_numbered || ["BF16", "F16", "F32", "FP16", "MXFP4", "MXFP4_MOE"].contains(&bare)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(files: &[(&str, u64)]) -> Vec<Listed> {
        files.iter().map(|(path, bytes)| Listed { path: (*path).to_owned(), bytes: *bytes }).collect()
    }

    fn name(quant: Option<&str>, file: Option<&str>) -> HubName {
        HubName { quant: quant.map(str::to_owned), file: file.map(str::to_owned), ..HubName::new("a", "b") }
    }

    #[test]
    fn labels_are_found_in_names_as_people_write_them() {
        let label = |file: &str| quant_of(file).unwrap_or_default();
        assert_eq!(label("Qwen3-8B-Q4_K_M.gguf"), "Q4_K_M");
        assert_eq!(label("gpt-oss-20b-mxfp4.gguf"), "MXFP4");
        assert_eq!(label("nomic-embed-text-v1.5.Q8_0.gguf"), "Q8_0");
        assert_eq!(label("BF16/Llama-BF16-00001-of-00002.gguf"), "BF16");
        assert_eq!(label("Qwen3-30B-A3B-UD-Q4_K_XL.gguf"), "UD-Q4_K_XL");
        assert_eq!(label("qwen3-reranker-0.6b-q8_0.gguf"), "Q8_0");
        assert_eq!(label("model.gguf"), "");
    }

    #[test]
    fn one_quantisation_is_chosen_with_all_its_parts() {
        let files = listed(&[
            ("m-Q8_0-00002-of-00002.gguf", 40),
            ("m-Q8_0-00001-of-00002.gguf", 50),
            ("m-Q4_K_M.gguf", 45),
            ("m-IQ2_M.gguf", 20),
            ("mmproj-m-F16.gguf", 9),
            ("m-Q6_K-00001-of-00002.gguf", 30),
        ]);
        let chosen =
            |name: &HubName, budget| choose(&files, name, budget).map(|choice| (choice.files, choice.quant.unwrap()));
        assert_eq!(chosen(&name(None, None), None).unwrap(), (vec![2], "Q4_K_M".to_owned()));
        assert_eq!(chosen(&name(None, None), Some(30)).unwrap(), (vec![3], "IQ2_M".to_owned()));
        assert_eq!(chosen(&name(None, None), Some(3)).unwrap(), (vec![3], "IQ2_M".to_owned()));
        assert_eq!(chosen(&name(Some("Q8_0"), None), None).unwrap(), (vec![1, 0], "Q8_0".to_owned()));
        assert_eq!(chosen(&name(None, Some("m-Q4_K_M.gguf")), None).unwrap().0, [2]);
        // Half a split file is no model.
        let error = chosen(&name(Some("Q6_K"), None), None).unwrap_err();
        assert!(error.contains("Q4_K_M") && !error.contains("F16"), "{error}");
    }

    #[test]
    fn directories_are_taken_without_their_pickles() {
        let files = listed(&[
            ("config.json", 1),
            ("model.safetensors", 9),
            ("pytorch_model.bin", 9),
            ("tokenizer.json", 2),
            ("README.md", 1),
        ]);
        let choice = choose(&files, &name(None, None), None).unwrap();
        assert_eq!((choice.files, choice.source), (vec![0, 1, 3], None));
        let error = choose(&listed(&[("pytorch_model.bin", 9)]), &name(None, None), None).unwrap_err();
        assert!(error.contains("pickle"), "{error}");
    }
}
