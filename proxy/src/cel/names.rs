//! What expressions may name: the functions, operators and types there are, and what is refused with a reason.

use cel_interpreter::common::ast::operators;

/// The standard functions, the string extension, and ours.
pub const FUNCTIONS: [&str; 36] = [
    "size",
    "contains",
    "startsWith",
    "endsWith",
    "matches",
    "string",
    "int",
    "uint",
    "double",
    "bool",
    "bytes",
    "type",
    "dyn",
    "charAt",
    "indexOf",
    "lastIndexOf",
    "lowerAscii",
    "upperAscii",
    "replace",
    "split",
    "join",
    "substring",
    "trim",
    "reverse",
    "format",
    "quote",
    "cookie",
    DEFAULT,
    COALESCE,
    "of",
    "none",
    "ofNonZeroValue",
    "hasValue",
    "value",
    "or",
    "orValue",
];
pub const OPERATORS: [&str; 20] = [
    operators::CONDITIONAL,
    operators::LOGICAL_AND,
    operators::LOGICAL_OR,
    operators::LOGICAL_NOT,
    operators::SUBSTRACT,
    operators::ADD,
    operators::MULTIPLY,
    operators::DIVIDE,
    operators::MODULO,
    operators::EQUALS,
    operators::NOT_EQUALS,
    operators::GREATER_EQUALS,
    operators::LESS_EQUALS,
    operators::GREATER,
    operators::LESS,
    operators::NEGATE,
    operators::INDEX,
    operators::OPT_INDEX,
    operators::OPT_SELECT,
    operators::IN,
];
/// Names that stand for types, or for a family of functions.
pub const TYPES: [&str; 12] = [
    "bool",
    "int",
    "uint",
    "double",
    "string",
    "bytes",
    "list",
    "map",
    "type",
    "null_type",
    "optional",
    "strings",
];

/// The first argument, or the second if the first is missing or null.
pub const DEFAULT: &str = "default";
/// The first argument that has a value other than null.
pub const COALESCE: &str = "coalesce";

/// Fields that other proxies know, with what they lack here. `*`: all fields of the variable that do not exist.
const FIELDS_LATER: [(&str, &str, &str); 3] = [
    ("request", "body", "bodies are passed on unread"),
    ("response", "grpcStatus", "gRPC is not served"),
    (
        "source",
        "*",
        "without TLS a client is its address and port",
    ),
];
/// Variables, likewise.
const VARIABLES_LATER: [(&str, &str); 7] = [
    ("destination", "only where clients come from is known"),
    ("jwt", "there is no authentication"),
    ("apiKey", "there is no authentication"),
    ("basicAuth", "there is no authentication"),
    ("llm", "requests to models are passed on unread"),
    ("mcp", "MCP is passed on unread"),
    ("backend", "expressions are about requests and responses"),
];
/// Functions, likewise.
const FUNCTIONS_LATER: [(&str, &str); 2] = [("duration", NO_DATES), ("timestamp", NO_DATES)];
const NO_DATES: &str = "dates and durations are not reckoned with";

/// Why this field cannot be read yet.
pub fn field_later(variable: &str, field: &str) -> Option<&'static str> {
    let mut fields = FIELDS_LATER.iter();
    let found = fields.find(|one| one.0 == variable && (one.1 == field || one.1 == "*"));
    found.map(|one| one.2)
}

/// Why this variable cannot be read yet.
pub fn variable_later(name: &str) -> Option<&'static str> {
    let found = VARIABLES_LATER.iter().find(|one| one.0 == name);
    found.map(|one| one.1)
}

/// Why this function cannot be called yet.
pub fn function_later(name: &str) -> Option<&'static str> {
    let found = FUNCTIONS_LATER.iter().find(|one| one.0 == name);
    found.map(|one| one.1)
}
