use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::tokenizer::{Token, Tokenizer};

const VALUE: &str = "?";

const LOOKED_AT_BYTES: usize = 4096;

/// Keywords before a number's sign. After other words, which may be names, plus and minus are operators.
const BEFORE_A_SIGN: &str = "and as between by case default else from in like limit not offset on or return returning \
                             select then when where";

const SYMBOLS: &str = "+-*/<>=~!@#%^&|?,();:[].{}";

/// Statement on one line, with `?` for each value, and for everything after an opening quote whose closing one is
/// missing or depends on `standard_conforming_strings`.
pub fn show_statement(text: &str) -> String {
    let looked_at = &text[..text.floor_char_boundary(LOOKED_AT_BYTES)];
    let mut tokens = Vec::new();
    let mut tokenizer = Tokenizer::new(&PostgreSqlDialect {}, looked_at).with_unescape(false);
    let is_whole = tokenizer.tokenize_with_location_into_buf(&mut tokens).is_ok();
    let mut shown = Shown::default();
    let is_told = tokens.into_iter().all(|token| shown.add(&token.token));
    if !(is_whole && is_told) {
        shown.push_value();
    }
    shown.text
}

#[derive(Debug, Default)]
struct Shown {
    text: String,
    /// The next token follows white space or a comment.
    is_apart: bool,
    last: Part,
    before: Part,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Part {
    #[default]
    Begin,
    /// A following sign belongs to a number.
    Opening,
    /// A following sign is an operator.
    Operand,
    Value,
    Sign,
}

impl Shown {
    /// False if nothing more may be shown.
    fn add(&mut self, token: &Token) -> bool {
        match token {
            Token::Whitespace(_) => self.is_apart = true,
            Token::Word(word) => self.push_word(&word.to_string(), word.quote_style.is_some()),
            Token::Placeholder(name) if name[1..].bytes().all(|byte| byte.is_ascii_digit()) => {
                self.push(name, Part::Operand);
            }
            Token::SingleQuotedString(raw) | Token::NationalStringLiteral(raw) => {
                self.push_value();
                return !format!("{raw}'").contains(r"\'");
            }
            Token::Number(..) => {
                // `- 5` and `5` are the same statement.
                if self.last == Part::Sign && matches!(self.before, Part::Begin | Part::Opening | Part::Sign) {
                    self.text.pop();
                    self.is_apart = false;
                }
                self.push_value();
            }
            other => {
                let text = other.to_string();
                if !text.chars().all(|one| SYMBOLS.contains(one)) {
                    self.push_value();
                    return true;
                }
                let part = match text.as_str() {
                    "+" | "-" => Part::Sign,
                    ")" | "]" | "}" | "." => Part::Operand,
                    _ => Part::Opening,
                };
                self.push(&text, part);
                // sqlparser takes the start of a comment for an operator.
                return !(text.contains("--") || text.contains("/*"));
            }
        }
        true
    }

    fn push_word(&mut self, word: &str, is_quoted: bool) {
        // `0b11` and `12x` continue the number.
        if self.last == Part::Value && !self.is_apart && !is_quoted {
            return;
        }
        let is_opening = !is_quoted && BEFORE_A_SIGN.split(' ').any(|one| one.eq_ignore_ascii_case(word));
        self.push(word, if is_opening { Part::Opening } else { Part::Operand });
    }

    fn push_value(&mut self) {
        // Adjacent value tokens form one number (`1`, `.5`) or string.
        if self.last == Part::Value && self.text.ends_with(VALUE) {
            self.is_apart = false;
            return;
        }
        self.push(VALUE, Part::Value);
    }

    fn push(&mut self, text: &str, part: Part) {
        if std::mem::take(&mut self.is_apart) && !self.text.is_empty() && !self.text.ends_with(' ') {
            self.text.push(' ');
        }
        self.text.push_str(text);
        (self.before, self.last) = (self.last, part);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn values_of_every_kind_are_question_marks() {
        for (text, shown) in [
            ("SELECT x\n FROM t WHERE a = 5.5 AND b = 'it''s'", "SELECT x FROM t WHERE a = ? AND b = ?"),
            ("alter role mon password $$geheim$$", "alter role mon password ?"),
            (r"select $$geheim$$, pg_sleep(30), E'\'geheim2'", "select ?, pg_sleep(?), ?"),
            ("select $a$ge$$heim$a$, U&'\\0061', B'101', x'1F', n'a', \"Name 1\"", "select ?, ?, ?, ?, ?, \"Name 1\""),
            ("SELECT 1 -- geheim\n/* geheim /* geheim */ */ + 2", "SELECT ? + ?"),
            ("SELECT t1.c2, $1 FROM t1 WHERE a::int4 > 1e-5", "SELECT t1.c2, $1 FROM t1 WHERE a::int4 > ?"),
            ("SELECT 0x1F, 0b101, 1_000, .5, 12geheim", "SELECT ?, ?, ?, ?, ?"),
            ("SELECT 'a'\n'geheim'", "SELECT ?"),
            ("SELECT 'gehei", "SELECT ?"),
            ("SELECT $x$gehei", "SELECT ?"),
            (r"SELECT E'gehei\", "SELECT ?"),
            ("SELECT 1 /* gehei", "SELECT ?"),
            ("SELECT \"gehei", "SELECT ?"),
            // Without standard_conforming_strings.
            (r"SELECT 'a\', geheim'", "SELECT ?"),
            (r"SELECT 'a\'', 'geheim'", "SELECT ?"),
            ("SELECT 1 !--geheim", "SELECT ? !"),
        ] {
            assert_eq!(show_statement(text), shown, "{text}");
        }
    }

    #[test]
    fn a_sign_is_part_of_a_number_where_nothing_is_taken_from_anything() {
        let update = |delta: &str| show_statement(&format!("UPDATE t SET a = a + {delta} WHERE b = {delta}"));
        assert_eq!(update("-4711"), "UPDATE t SET a = a + ? WHERE b = ?");
        assert_eq!((update("- 5"), update("+5")), (update("5"), update("5")));
        assert_eq!(show_statement("SELECT -5, (-5), a - 5, 1 - -2"), "SELECT ?, (?), a - ?, ? - ?");
    }

    proptest! {
        #[test]
        fn what_stands_in_a_literal_is_never_shown(
            before in "[a-z0-9 '\\\\$]{0,6}",
            after in "[a-z0-9 ]{0,6}",
            kind in 0_usize..9,
            cut in 0_usize..20,
        ) {
            let secret = format!("{before}zgeheimz{after}");
            let doubled = secret.replace('\'', "''");
            let escaped = secret.replace('\\', r"\\").replace('\'', r"\'");
            let literal = match kind {
                0 => format!("'{doubled}'"),
                1 => format!("E'{escaped}'"),
                2 => format!("e'{}'", escaped.replace(r"\'", "''")),
                3 => format!("U&'{}'", doubled.replace('\\', r"\\")),
                4 => format!("N'{doubled}'"),
                5 => format!("$${}$$", secret.replace('$', "")),
                6 => format!("$x_1${}$x_1$", secret.replace('$', "")),
                7 => format!("/*'{}*/", secret),
                _ => format!("'{escaped}'"),
            };
            let text = format!("ALTER ROLE a PASSWORD {literal}, 'b', {literal}");
            let text = &text[..text.len() - cut];
            prop_assert!(!show_statement(text).contains("geheim"), "{} is {}", text, show_statement(text));
        }

        #[test]
        fn any_text_is_shown_somehow(text in "[^\"]{0,200}") {
            prop_assert!(!show_statement(&text).contains('\''));
        }
    }
}
