//! Adapters as llama.cpp's server has them in requests and answers: by number, each with its scale.

use kauri_engine::{AdapterFile, Applied};
use serde_json::Value as Json;

use crate::document::schema;
use crate::error::Problem;

/// Most of them in a list; the schemas say so, too.
const LISTED_MAX: usize = 64;

schema!(pub lora_schema, {
    "type": ["array", "null"],
    "maxItems": 64,
    "items": {
        "type": "object",
        "properties": {
            "id": { "type": "integer", "minimum": 0 },
            "scale": { "type": "number", "minimum": -1000, "maximum": 1000 },
        },
        "required": ["id", "scale"],
    },
});
schema!(pub scales_schema, {
    "type": "array",
    "maxItems": 64,
    "items": {
        "type": "object",
        "properties": {
            "id": { "type": "integer", "minimum": 0 },
            "scale": { "type": "number", "minimum": -1000, "maximum": 1000 },
        },
        "required": ["id", "scale"],
    },
});

/// What a list in the field `name` says of the `count` adapters that there are; those that it does not name are left out.
///
/// # Errors
/// Names what is no adapter, or no scale.
pub fn read_adapters(name: &str, given: &Json, count: usize) -> Result<Vec<Applied>, Problem> {
    let wrong = || Problem::field(name, "must be a list of adapters, each with an id and a scale");
    let list = given.as_array().ok_or_else(wrong)?;
    if list.len() > LISTED_MAX {
        return Err(Problem::field(name, format!("must name at most {LISTED_MAX} adapters, not {}", list.len())));
    }
    let mut applied: Vec<Applied> = Vec::new();
    for (index, one) in list.iter().enumerate() {
        let (field_of_id, field_of_scale) = (format!("{name}[{index}].id"), format!("{name}[{index}].scale"));
        let members = one.as_object().ok_or_else(wrong)?;
        let id = members.get("id").and_then(Json::as_u64).filter(|&id| id < count as u64);
        let id = id.ok_or_else(|| match count {
            0 => Problem::field(&field_of_id, "names an adapter, and none was loaded with this model"),
            1 => Problem::field(&field_of_id, "must be 0, the number of the only adapter"),
            _ => Problem::field(&field_of_id, format!("must be the number of an adapter, from 0 to {}", count - 1)),
        })? as u32;
        let scale = members.get("scale").and_then(Json::as_f64);
        let most = f64::from(AdapterFile::SCALE_MAX);
        let scale = scale
            .filter(|scale| (-most..=most).contains(scale))
            .ok_or_else(|| Problem::field(&field_of_scale, format!("must be a number from -{most} to {most}")))?;
        if applied.iter().any(|other| other.adapter == id) {
            return Err(Problem::field(&field_of_id, format!("names adapter {id} again")));
        }
        applied.push(Applied { adapter: id, scale: scale as f32 });
    }
    Ok(applied)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_list_of_adapters_is_read_or_the_place_that_is_wrong_is_named() {
        let read = |given: Json, count| read_adapters("lora", &given, count);
        let one = |adapter, scale| Applied { adapter, scale };
        assert_eq!(read(json!([]), 0).unwrap(), []);
        let both = json!([{ "id": 1, "scale": -0.5 }, { "id": 0, "scale": 1 }]);
        assert_eq!(read(both, 2).unwrap(), [one(1, -0.5), one(0, 1.0)]);
        for (given, count, field) in [
            (json!(null), 1, "lora"),
            (json!({}), 1, "lora"),
            (json!([1]), 1, "lora"),
            (json!(vec![1; 65]), 1, "lora"),
            (json!((0..65).map(|id| json!({ "id": id, "scale": 1 })).collect::<Vec<_>>()), 99, "lora"),
            (json!([{ "id": 0 }]), 1, "lora[0].scale"),
            (json!([{ "id": 0, "scale": "1" }]), 1, "lora[0].scale"),
            (json!([{ "id": 0, "scale": 1e300 }]), 1, "lora[0].scale"),
            (json!([{ "scale": 1 }]), 1, "lora[0].id"),
            (json!([{ "id": 0, "scale": 1 }]), 0, "lora[0].id"),
            (json!([{ "id": 0, "scale": 1 }, { "id": 2, "scale": 1 }]), 2, "lora[1].id"),
            (json!([{ "id": -1, "scale": 1 }]), 2, "lora[0].id"),
            (json!([{ "id": 1, "scale": 1 }, { "id": 1, "scale": 1 }]), 2, "lora[1].id"),
        ] {
            let problem = read(given.clone(), count).expect_err(&given.to_string());
            assert_eq!(problem.param.as_deref(), Some(field), "{given}: {}", problem.message);
        }
    }
}
