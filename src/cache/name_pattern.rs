//! Names as the user writes them: as SQL has them, and psql's patterns.

use regex::Regex;

use crate::postgres::RelationName;

/// A name or pattern, qualified or not, as psql's `\d` takes it: `orders`, `sales.*`, `shop.public.orders`,
/// `"Odd Name"`. Upper case is folded to lower case outside of double quotes, `*` and `?` stand for any characters and for
/// one, and the rest of a regular expression's notation works as it does in psql. What is written exactly as a relation
/// is called means it too, quoted or not.
#[derive(Clone, Debug)]
pub struct NamePattern {
    raw: String,
    /// Database, schema and name from the right; none where what was written is no pattern.
    parts: Vec<Regex>,
}

impl NamePattern {
    /// Reads a name or pattern. What cannot be one means what is called exactly so.
    pub fn new(text: &str) -> NamePattern {
        let parts = split(text).filter(|parts| !text.is_empty() && parts.len() <= 3).unwrap_or_default();
        let parts: Option<Vec<Regex>> = parts.iter().rev().map(|part| compile(part)).collect();
        NamePattern { raw: text.to_owned(), parts: parts.unwrap_or_default() }
    }

    /// Does it mean the relation of this name? Without a schema it means those of every schema.
    pub fn matches(&self, name: &RelationName) -> bool {
        // A shared catalog is in every database.
        let database = |pattern: &Regex| name.database.is_empty() || pattern.is_match(&name.database);
        let is_pattern_of = match self.parts.as_slice() {
            [] => false,
            [relation, rest @ ..] => {
                relation.is_match(&name.name)
                    && rest.first().is_none_or(|schema| schema.is_match(&name.schema))
                    && rest.get(1).is_none_or(database)
            }
        };
        is_pattern_of || self.raw == name.name || self.raw == name.to_string()
    }

    /// Read as a schema's name, with or without its database: does it mean this relation's?
    pub fn matches_schema(&self, name: &RelationName) -> bool {
        let is_pattern_of = match self.parts.as_slice() {
            [schema] => schema.is_match(&name.schema),
            [schema, database] => schema.is_match(&name.schema) && database.is_match(&name.database),
            _ => false,
        };
        is_pattern_of || self.raw == name.schema
    }
}

/// Each dotted part as a regular expression, by the rules of `patternToSQLRegex` in PostgreSQL's
/// `src/fe_utils/string_utils.c`; `None` when a quote is not closed.
fn split(text: &str) -> Option<Vec<String>> {
    let mut parts = vec![String::new()];
    let mut is_quoted = false;
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        let part = parts.last_mut()?;
        match character {
            '"' if is_quoted && characters.next_if_eq(&'"').is_some() => part.push('"'),
            '"' => is_quoted = !is_quoted,
            _ if is_quoted => part.push_str(&regex::escape(character.encode_utf8(&mut [0; 4]))),
            '.' => parts.push(String::new()),
            '*' => part.push_str(".*"),
            '?' => part.push('.'),
            '$' => part.push_str("\\$"),
            // More likely the name of an array's type than the beginning of a set.
            '[' if characters.peek() == Some(&']') => part.push_str("\\["),
            _ => part.push(character.to_ascii_lowercase()),
        }
    }
    (!is_quoted).then_some(parts)
}

/// The whole has to match; an empty part leaves it open.
fn compile(part: &str) -> Option<Regex> {
    let part = if part.is_empty() { ".*" } else { part };
    Regex::new(&format!("(?s)^(?:{part})$")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(schema: &str, name: &str) -> RelationName {
        RelationName { database: "shop".into(), schema: schema.into(), name: name.into() }
    }

    #[track_caller]
    fn check(pattern: &str, relation: &RelationName, expected: bool) {
        assert_eq!(NamePattern::new(pattern).matches(relation), expected, "{pattern} on {relation:?}");
    }

    #[test]
    fn names_are_read_as_sql_reads_them() {
        let orders = name("public", "orders");
        for pattern in ["orders", "ORDERS", "public.orders", "Public.Orders", "shop.public.orders", "\"orders\""] {
            check(pattern, &orders, true);
        }
        for pattern in ["\"Orders\"", "order", "other.public.orders", "a.shop.public.orders", "", "\"orders", "orders."]
        {
            check(pattern, &orders, false);
        }
        check(
            "shop.pg_catalog.pg_database",
            &RelationName { database: String::new(), ..name("pg_catalog", "pg_database") },
            true,
        );
    }

    #[test]
    fn quotes_keep_what_is_in_them() {
        let odd = name("sc.hema", "ta.ble");
        check("\"sc.hema\".\"ta.ble\"", &odd, true);
        check("\"ta.ble\"", &odd, true);
        check("sc.hema.ta.ble", &odd, true);
        check("\"sc\".\"hema.ta.ble\"", &odd, false);
        check("\"Odd Name\"", &name("public", "Odd Name"), true);
        check("Odd Name", &name("public", "Odd Name"), true);
        check("odd name", &name("public", "Odd Name"), false);
        check("\"a\"\"b\"", &name("public", "a\"b"), true);
        check("FOO\"BAR\"", &name("public", "fooBAR"), true);
        check("\"a*\"", &name("public", "ab"), false);
        check("\"a*\"", &name("public", "a*"), true);
    }

    #[test]
    fn patterns_are_those_of_psql() {
        let sales = name("sales", "orders_2024");
        for pattern in
            ["sal*.*", "*.*", "*", "orders_202?", "orders*", "sales.", "*_*", "orders_202[45]", "(orders|x)_2024"]
        {
            check(pattern, &sales, true);
        }
        for pattern in ["sal*", "orders", "sale.*", "orders_?", "orders_202[67]", "o*.o*", "orders_(2024"] {
            check(pattern, &sales, false);
        }
        check("a$b", &name("public", "a$b"), true);
        check("a[]", &name("public", "a[]"), true);
    }

    #[test]
    fn a_schema_has_patterns_too() {
        let of = |pattern: &str| NamePattern::new(pattern).matches_schema(&name("Sales", "orders"));
        assert!(of("Sales") && of("\"Sales\"") && of("?ales") && of("shop.\"Sales\"") && of("*"));
        assert!(!of("sales") && !of("other.\"Sales\"") && !of("ales"));
    }
}
