//! Hostile templates: each ends with an error that names its limit, and none reaches outside.

use kauri_prompt::template::{Error, JSON_DEPTH_MAX, Json, Limits, Object, Template};

fn render(source: &str) -> Result<String, Error> {
    let variables = Json::parse(r#"{"messages": [{"role": "user", "content": "hello"}]}"#).unwrap();
    Template::compile(source)?.render(variables.as_object().unwrap())
}

fn limit_of(source: &str) -> String {
    match render(source) {
        Err(Error::Limit { limit, .. }) => limit,
        other => panic!("{source}: {:?}", other.map(|text| text.len())),
    }
}

#[test]
fn endless_work_ends_with_the_limit_on_instructions() {
    for source in [
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
        "{% for i in range(99999) %}{% for j in range(99999) %}{{ '' }}{% endfor %}{% endfor %}",
        "{% set ns = namespace(n=0) %}{% for i in range(99999) %}{% for j in range(99999) %}{% set ns.n = ns.n + 1 %}{% endfor %}{% endfor %}",
        "{% macro f() %}{% for i in range(99999) %}{% endfor %}{% endmacro %}{% for i in range(99999) %}{{ f() }}{% endfor %}",
        "{% for i in range(99) recursive %}{{ loop(range(99)) }}{% endfor %}",
    ] {
        let limit = limit_of(source);
        assert!(["instructions", "levels of recursion", "render work bytes"].contains(&&*limit), "{source}: {limit}");
    }
    assert_eq!(limit_of("{% for i in range(1000000000) %}{% endfor %}"), "range items");
}

#[test]
fn large_values_are_refused_before_they_are_made() {
    for (source, limit) in LARGE.iter().copied() {
        assert_eq!(limit_of(source), limit, "{source}");
    }
    let long_text = format!("{{% for i in range(99999) %}}{}{{% endfor %}}", "a".repeat(100_000));
    assert_eq!(limit_of(&long_text), "output bytes");
    let captured = format!("{{% set x %}}{long_text}{{% endset %}}");
    assert_eq!(limit_of(&captured), "output bytes");
    let wide = "{{ [[[1] * 99] * 99]|tojson(indent='x' * 8000000) }}";
    assert!(matches!(render(wide), Err(Error::Limit { .. })));
}

/// Templates that would make something large, and the limit that each meets.
const LARGE: &[(&str, &str)] = &[
    ("{{ 'a' * 1000000000 }}", "value bytes"),
    ("{{ 1000000000 * 'a' }}", "value bytes"),
    ("{{ 'a' * 10 ** 30 }}", "value bytes"),
    ("{{ [1] * 1000000000 }}", "value bytes"),
    ("{{ 'a'.center(1000000000) }}", "value bytes"),
    ("{{ 'a'|center(1000000000) }}", "value bytes"),
    ("{{ 'a'.ljust(9223372036854775807) }}", "value bytes"),
    ("{{ 'a'.zfill(1000000000) }}", "value bytes"),
    ("{{ 'a\\nb'|indent(1000000000) }}", "value bytes"),
    ("{{ ('a\\n' * 100000)|indent(1000000) }}", "value bytes"),
    ("{{ ('a' * 1000000).replace('a', 'b' * 1000000) }}", "value bytes"),
    ("{{ ('a' * 1000000)|replace('', 'b' * 1000000) }}", "value bytes"),
    ("{{ range(99999)|join('b' * 1000000) }}", "value bytes"),
    ("{{ ('b' * 1000000).join(['a'] * 99999) }}", "value bytes"),
    ("{{ [1]|batch(1000000000, 0) }}", "value bytes"),
    ("{{ [1]|slice(1000000000) }}", "value bytes"),
    ("{{ [[[[1] * 1000] * 1000] * 1000] * 1000 }}", "value bytes"),
    (
        "{% set ns = namespace(a='aaaaaaaa') %}{% for i in range(99) %}{% set ns.a = ns.a ~ ns.a %}{% endfor %}",
        "value bytes",
    ),
    (
        "{% set ns = namespace(a='aaaaaaaa') %}{% for i in range(99) %}{% set ns.a = ns.a + ns.a %}{% endfor %}",
        "value bytes",
    ),
    ("{% set ns = namespace(a=[1]) %}{% for i in range(99) %}{% set ns.a = ns.a + ns.a %}{% endfor %}", "value bytes"),
    (
        "{% set ns = namespace(a=[1]) %}{% for i in range(99) %}{% set ns.a = [ns.a, ns.a] %}{% endfor %}{{ ns.a == [ns.a] }}",
        "value bytes",
    ),
    (
        "{% set ns = namespace(a={}) %}{% for i in range(99) %}{% set ns.a = {1: ns.a, 2: ns.a} %}{% endfor %}{{ ns.a|tojson }}",
        "value bytes",
    ),
    (
        "{% set ns = namespace(a='a') %}{% for i in range(99) %}{% set ns.a = '%s%s' % (ns.a, ns.a) %}{% endfor %}",
        "value bytes",
    ),
    (
        "{% set ns = namespace(a='a') %}{% for i in range(99) %}{% set ns.a = '{0}{0}'.format(ns.a) %}{% endfor %}",
        "value bytes",
    ),
    (
        "{% macro f(a) %}{{ a }}{{ a }}{% endmacro %}{% set ns = namespace(a='a') %}{% for i in range(99) %}{% set ns.a = f(ns.a) %}{% endfor %}",
        "output bytes",
    ),
    ("{% set ns = namespace(a=[1]) %}{% for i in range(999) %}{% set ns.a = [ns.a] %}{% endfor %}", "value depth"),
    (
        "{% set ns = namespace(a=[1]) %}{% for i in range(999) %}{% set ns.a = ns.a|batch(1) %}{% endfor %}",
        "value depth",
    ),
    ("{% set ns = namespace(a=1) %}{% for i in range(999) %}{% set ns.a = {'a': ns.a} %}{% endfor %}", "value depth"),
    (
        "{% set ns = namespace(a=1) %}{% for i in range(999) %}{% set ns.a = namespace(b=ns.a) %}{% endfor %}",
        "value depth",
    ),
    ("{% for i in range(99999) %}{{ 'a' * 1000 }}{% endfor %}", "output bytes"),
    ("{% set x %}{% for i in range(99999) %}{{ 'a' * 1000 }}{% endfor %}{% endset %}", "output bytes"),
    (
        "{% set a = 'a' * 8000000 %}{% for i in range(99999) %}{% if a == a ~ '' %}{% endif %}{% endfor %}",
        "render work bytes",
    ),
    (
        "{% set a = 'a' * 8000000 %}{% for i in range(99999) %}{% if 'b' in a %}{% endif %}{% endfor %}",
        "render work bytes",
    ),
    (
        "{% set a = 'a' * 8000000 %}{% for i in range(99999) %}{% if a.startswith('b') %}{% endif %}{% endfor %}",
        "render work bytes",
    ),
    (
        "{% set a = 'a' * 8000000 %}{% set d = {} %}{% for i in range(99999) %}{% if d[a] %}{% endif %}{% endfor %}",
        "render work bytes",
    ),
    ("{% set a = range(99999)|list %}{% for i in a %}{% if a|sort %}{% endif %}{% endfor %}", "render work bytes"),
    ("{% set a = range(99999)|list %}{{ a|unique|list|length }}", "render work bytes"),
    (
        "{% set a = range(99999)|list %}{% for i in a %}{% if a|map('string') %}{% endif %}{% endfor %}",
        "render work bytes",
    ),
];

#[test]
fn recursion_is_bounded() {
    for source in [
        "{% macro f(n) %}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}",
        "{% macro f() %}{% if true %}{% for i in [1] %}{% with a = 1 %}{{ f() }}{% endwith %}{% endfor %}{% endif %}{% endmacro %}{{ f() }}",
        "{% macro f() %}{{ g() }}{% endmacro %}{% macro g() %}{{ caller() if caller else f() }}{% endmacro %}{{ g() }}",
        "{% macro f() %}{% call f() %}{{ f() }}{% endcall %}{% endmacro %}{{ f() }}",
    ] {
        let result = render(source);
        assert!(matches!(result, Err(Error::Limit { .. } | Error::Failed { .. })), "{source}: {result:?}");
    }
    assert_eq!(limit_of("{% macro f(n) %}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}"), "levels of recursion");
    let nested = "{% for i in [1] %}".repeat(1000) + &"{% endfor %}".repeat(1000);
    assert!(render(&nested).is_err());
    let brackets = format!("{{{{ {}1{} }}}}", "[".repeat(5000), "]".repeat(5000));
    assert!(render(&brackets).is_err());
    let chain = format!("{{{{ 1{} }}}}", " + 1".repeat(500));
    assert_eq!(render(&chain).unwrap(), "501");
    let alternatives = "{% if 0 %}".to_owned() + &"{% elif 0 %}".repeat(20_000) + "{% endif %}";
    assert!(render(&alternatives).is_err());
    for operator in ["~ 1", "and 1", "or 0", "== 1", "* 1", "- 0", "|string", "is defined", ".a", "[0]", "if 1"] {
        let chain = format!("{{{{ 1 {} }}}}", format!("{operator} ").repeat(20_000));
        let _ = render(&chain);
    }
}

#[test]
fn nothing_outside_is_reached() {
    for source in [
        "{% include '/etc/passwd' %}",
        "{% import 'os' as os %}",
        "{% from 'os' import environ %}",
        "{% extends '/etc/passwd' %}",
    ] {
        assert!(matches!(render(source), Err(Error::Syntax { .. })), "{source}");
    }
    for source in [
        "{{ ''.__class__.__mro__ }}",
        "{{ messages.__class__.__base__.__subclasses__() }}",
        "{{ self._TemplateReference__context }}",
        "{{ lipsum.__globals__.os.popen('id').read() }}",
        "{{ cycler.__init__.__globals__ }}",
        "{{ debug() }}",
        "{{ '{0.__class__}'.format(1) }}",
        "{{ ''|attr('__class__')|attr('__mro__') }}",
        "{{ messages.append(1) }}",
        "{{ messages[0].update({'role': 'system'}) }}",
        "{{ messages[0].pop('role') }}",
        "{{ range.__self__ }}{{ open('/etc/passwd') }}",
        "{{ 1|pprint }}",
        "{{ [1]|random }}",
    ] {
        assert!(matches!(render(source), Err(Error::Failed { .. })), "{source}: {:?}", render(source));
    }
    assert!(matches!(render("{{ _kauri_budget }}"), Err(Error::Syntax { .. })));
    assert_eq!(render("{{ messages._kauri }}|{{ ''.__class__ }}").unwrap(), "|");
}

#[test]
fn hostile_corners_end_in_errors_not_panics() {
    for source in [
        "{{ loop.cycle() }}",
        "{% for i in [1] %}{{ loop.cycle(*[]) }}{% endfor %}",
        "{% for i in [1] %}{% set x = [loop] %}{% endfor %}",
        "{% set ns = namespace() %}{% set ns.a = ns %}{{ ns.a.a.a.b }}",
        "{{ 1 // 0 }}{{ 1 % 0 }}",
        "{{ 1 / 0 }}",
        "{{ -170141183460469231731687303715884105728 // -1 }}",
        "{{ 170141183460469231731687303715884105727 + 1 }}",
        "{{ 'abc'[::0] }}",
        "{{ '%d' % 'a' }}",
        "{{ '%9999999d' % 1 }}",
        "{{ '%.99999f' % 1.5 }}",
        "{{ '{:9999999}'.format(1) }}",
        "{{ '{' .format() }}",
        "{{ '%' % 1 }}",
        "{{ '%(a' % {'a': 1} }}",
        "{{ 'a'.split('') }}",
        "{{ {[1]: 2} }}",
        "{{ [1, 'a']|sort }}",
        "{{ nothing.at.all }}",
        "{{ nothing() }}",
        "{{ 1|nothing }}",
        "{{ 1 is nothing }}",
        "{{ ''|tojson(separators=5, indent='a' ~ 5, wrong=1) }}",
        "{{ strftime_now('%Y') }}",
        "{{ raise_exception() }}",
        "{% set messages.content = 1 %}",
        "{% for a, b in [[1, 2, 3]] %}{% endfor %}",
        "{{ namespace(1) }}",
        "{{ dict([1]) }}",
        "{{ range(1, 2, 0) }}",
        "{{ range(-9223372036854775808, 9223372036854775807, 9223372036854775807)|length }}{{ range() }}",
        "{{ 'a'|round }}",
        "{% break %}",
        "{% macro loop() %}{% endmacro %}{{ loop() }}{{ loop(1) }}{{ caller() }}",
        "{% filter nothing %}a{% endfilter %}",
    ] {
        assert!(render(source).is_err(), "{source}: {:?}", render(source));
    }
}

#[test]
fn a_templates_own_refusal_keeps_its_words() {
    let result = render(
        "{% macro f() %}{{ raise_exception('no ' ~ messages[0].role ~ '!') }}{% endmacro %}{% set x %}{{ f() }}{% endset %}",
    );
    assert!(matches!(result, Err(Error::Raised { message }) if message == "no user!"));
}

#[test]
fn errors_name_the_line() {
    let result = render("a\n{# b\n #}\n{% if true %}\n  {{ 1 +\n 'a' }}\n{% endif %}");
    assert!(matches!(&result, Err(Error::Failed { line: 5, .. })), "{result:?}");
    let result = render("a\n{% if true %}\n{{ ) }}\n{% endif %}");
    assert!(matches!(&result, Err(Error::Syntax { line: 3, .. })), "{result:?}");
    let result = render("a\n{% if true %}\n{{ 1 }}\n{% endfor %}");
    assert!(matches!(&result, Err(Error::Syntax { line: 4, .. })), "{result:?}");
}

#[test]
fn conversations_are_limited() {
    let template = Template::compile("{{ messages }}").unwrap();
    let mut json = Json::Null;
    for _ in 0..JSON_DEPTH_MAX + 2 {
        json = Json::Array(vec![json]);
    }
    let deep = Object::from_iter([("messages".to_owned(), json)]);
    assert!(matches!(template.render(&deep), Err(Error::Limit { .. })));
    let long = Object::from_iter([("messages".to_owned(), Json::from("a".repeat(33 << 20)))]);
    assert!(matches!(template.render(&long), Err(Error::Limit { .. })));
    let clock = Object::from_iter([("now".to_owned(), Json::from("today"))]);
    assert!(matches!(template.render(&clock), Err(Error::Clock { .. })));
}

#[test]
fn limits_can_be_set() {
    let limits = Limits { instructions_max: 100, work_bytes_max: 8000, value_bytes_max: 2000, output_bytes_max: 1000 };
    let none = Object::new();
    let render = |source: &str| Template::compile(source).unwrap().with_limits(limits).render(&none);
    assert_eq!(render("{{ 'a' * 1000 }}").unwrap().len(), 1000);
    for (source, name) in [
        ("{{ 'a' * 1001 }}", "output bytes"),
        ("{{ 'a' * 2001 }}", "value bytes"),
        ("{% for i in range(20) %}{{ '' }}{{ '' }}{{ '' }}{% endfor %}", "instructions"),
        ("{% for i in range(9) %}{% set a = 'a' * 999 %}{% endfor %}", "render work bytes"),
    ] {
        match render(source) {
            Err(Error::Limit { limit, .. }) => assert_eq!(limit, name, "{source}"),
            other => panic!("{source}: {other:?}"),
        }
    }
}
