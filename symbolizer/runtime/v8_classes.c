/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How this works. V8 does not store which class a method belongs to, only where in the source its
 * parameters begin. So the source is split into tokens, and the brackets that are open are kept on
 * a stack. The method belongs to the class whose body is the innermost open bracket at its "(".
 *
 * What is difficult in JavaScript is a "/": it is a division after a value, and begins a regular
 * expression elsewhere. It follows from the token before; after a ")" from the word before the
 * matching "(", and after a "}" from the token before the matching "{". Statements that begin with
 * an object or a function are told from expressions in this way, with exceptions that nobody
 * writes. Should one occur, quotes or brackets are taken for others, and do not match any more. A
 * source in which they do not match has no classes: no name is better than a wrong one.
 *
 * The name of a class is the word after "class". Without one it is that of the variable or property
 * to which the class is assigned.
 *
 * Example: "exports.Foo = class { m() {} }; class Bar { get x() {} }" has a "(" in the body of the
 * first class at offset 23, and in that of the second one at offset 48. The function "m", whose
 * parameters begin at 23, is exports.Foo.m.
 */
#include "symbolizer/runtime/v8_classes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/search.h"
#include "symbolizer/runtime/limits.h"

enum {
	WORD_BYTES = 12, /* more than the longest keyword that matters, "instanceof" */
	METHODS_FIRST = 64,
};

/* What the token before is. */
enum token {
	TOKEN_OPERATOR, /* a value follows; also the start of the source */
	TOKEN_ASSIGN,	/* the same: "=" after a name */
	TOKEN_KEYWORD,	/* the same: "return" */
	TOKEN_BLOCK,	/* a statement follows: ";", "{", "}", "=>", "else" */
	TOKEN_CONDITION,
	TOKEN_WORD,
	TOKEN_DOT,
	TOKEN_VALUE,	       /* a string, a number, "]" */
	TOKEN_PARENTHESES,     /* "(...)" */
	TOKEN_CONDITION_CLOSED /* "if (...)": a statement follows */
};

enum bracket {
	BRACKET_NONE,
	BRACKET_PARENTHESIS,
	BRACKET_CONDITION, /* "(" after "if", "while", "for", "with" */
	BRACKET_SQUARE,
	BRACKET_BLOCK,
	BRACKET_OBJECT,
	BRACKET_CLASS,
	BRACKET_TEMPLATE, /* "${" */
};

/* How much of "class NAME extends VALUE {" was read. */
enum head {
	HEAD_NONE,
	HEAD_CLASS,
	HEAD_NAMED,
	HEAD_EXTENDS,
};

enum state {
	STATE_CODE,
	STATE_WORD,
	STATE_SLASH, /* after a "/" that may begin anything */
	STATE_LINE_COMMENT,
	STATE_COMMENT,
	STATE_COMMENT_STAR,
	STATE_STRING,
	STATE_STRING_ESCAPE,
	STATE_STRING_RETURN, /* after a carriage return that was escaped */
	STATE_TEMPLATE,
	STATE_TEMPLATE_ESCAPE,
	STATE_TEMPLATE_DOLLAR,
	STATE_REGEXP,
	STATE_REGEXP_ESCAPE,
	STATE_REGEXP_CLASS,
	STATE_REGEXP_CLASS_ESCAPE,
	STATE_FAILED,
};

struct level {
	enum bracket bracket;
	struct v8_span body; /* the name of the class whose body this is */
	enum head head;	     /* of a class that begins in this bracket */
	struct v8_span name; /* of that class */
};

struct v8_classes {
	enum state state;
	uint32_t at; /* offset of the character */
	uint32_t quote;
	enum token token, before; /* the last token and the one before */
	uint32_t last;		  /* the last character of an operator, and where it was */
	uint32_t last_at;
	char word[WORD_BYTES];
	uint32_t word_start;
	/* The last "a.b.c"; its length is 0 if it is not only that. */
	struct v8_span chain;
	unsigned int depth;
	struct level levels[V8_NESTING_MAX];
	struct v8_methods found;
	int error;
};

struct v8_classes *v8_classes_new(void)
{
	return calloc(1, sizeof(struct v8_classes));
}

void v8_classes_free(struct v8_classes *classes)
{
	if (classes)
		free(classes->found.methods);
	free(classes);
}

static void fail(struct v8_classes *c, int error)
{
	c->state = STATE_FAILED;
	c->error = error;
}

static struct level *level(struct v8_classes *c)
{
	return &c->levels[c->depth];
}

static void token_set(struct v8_classes *c, enum token token)
{
	c->before = c->token;
	c->token = token;
}

/* Returns whether a value or a statement follows, so that "/" begins a regular expression. */
static bool expects_value(const struct v8_classes *c)
{
	return c->token <= TOKEN_CONDITION || c->token == TOKEN_CONDITION_CLOSED;
}

static bool is_end_of_line(uint32_t ch)
{
	return ch == '\n' || ch == '\r' || ch == 0x2028 || ch == 0x2029;
}

static bool is_space(uint32_t ch)
{
	return ch == ' ' || (ch >= '\t' && ch <= '\r') || ch == 0xa0 || ch == 0xfeff ||
	       ch == 0x1680 || (ch >= 0x2000 && ch <= 0x200a) || ch == 0x202f || ch == 0x205f ||
	       ch == 0x3000 || is_end_of_line(ch);
}

static bool is_word(uint32_t ch)
{
	return (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || (ch >= '0' && ch <= '9') ||
	       ch == '_' || ch == '$' || ch == '#' || ch == '\\' || (ch >= 0x80 && !is_space(ch));
}

static void open_bracket(struct v8_classes *c, enum bracket bracket, struct v8_span body)
{
	if (c->depth + 1 == V8_NESTING_MAX) {
		fail(c, -EINVAL);
		return;
	}
	c->depth++;
	*level(c) = (struct level){.bracket = bracket, .body = body};
}

/* Closes a bracket. Returns which it was, or BRACKET_NONE. */
static enum bracket close_bracket(struct v8_classes *c)
{
	const enum bracket bracket = level(c)->bracket;

	if (c->depth)
		c->depth--;
	return bracket;
}

/* ---- Words ---- */

static bool one_of(const char *word, const char *const *words, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (!strcmp(word, words[i]))
			return true;
	}
	return false;
}

/* Returns what a word is that is not the name of a property. */
static enum token classify(const char *word)
{
	static const char *const keywords[] = {"return", "typeof",     "case", "in",	 "void",
					       "delete", "instanceof", "new",  "throw",	 "yield",
					       "await",	 "default",    "of",   "extends"};
	static const char *const blocks[] = {"do", "else", "try", "finally"};
	static const char *const conditions[] = {"if", "while", "for", "with"};

	if (one_of(word, keywords, sizeof(keywords) / sizeof(keywords[0])))
		return TOKEN_KEYWORD;
	if (one_of(word, blocks, sizeof(blocks) / sizeof(blocks[0])))
		return TOKEN_BLOCK;
	return one_of(word, conditions, sizeof(conditions) / sizeof(conditions[0]))
		   ? TOKEN_CONDITION
		   : TOKEN_WORD;
}

/* A word of the head of a class, or the word "class". */
static void read_head_word(struct v8_classes *c, struct v8_span word)
{
	struct level *l = level(c);

	if (!strcmp(c->word, "class")) {
		/* A class directly after "extends" would need a second head. */
		if (l->head == HEAD_EXTENDS)
			fail(c, -EINVAL);
		l->head = HEAD_CLASS;
		l->name = c->token == TOKEN_ASSIGN ? c->chain : (struct v8_span){0};
	} else if (l->head == HEAD_EXTENDS && !strcmp(c->word, "function")) {
		fail(c, -EINVAL);
	} else if (l->head == HEAD_CLASS && strcmp(c->word, "extends") != 0) {
		l->head = HEAD_NAMED;
		l->name = word;
	} else if (l->head == HEAD_CLASS || l->head == HEAD_NAMED) {
		l->head = strcmp(c->word, "extends") ? HEAD_NONE : HEAD_EXTENDS;
	}
}

static void end_word(struct v8_classes *c)
{
	const struct v8_span word = {c->word_start, c->at - c->word_start};
	const bool property = c->token == TOKEN_DOT;
	const enum token token = property ? TOKEN_WORD : classify(c->word);

	c->state = STATE_CODE;
	if (!property)
		read_head_word(c, word);
	if (property && c->chain.length && c->chain.start + c->chain.length + 1 == word.start)
		c->chain.length += word.length + 1;
	else
		c->chain = property || token != TOKEN_WORD || !strcmp(c->word, "this")
			       ? (struct v8_span){0}
			       : word;
	token_set(c, token);
}

static void read_word(struct v8_classes *c, uint32_t ch)
{
	const uint32_t length = c->at - c->word_start;

	if (length < WORD_BYTES - 1) {
		c->word[length] = ch < 0x80 ? (char)ch : '?';
		c->word[length + 1] = 0;
	} else {
		/* Longer than all keywords: only that it is one must not be taken for granted. */
		c->word[0] = '?';
	}
}

/* ---- Operators and brackets ---- */

static void add_method(struct v8_classes *c)
{
	struct v8_methods *found = &c->found;

	const int r = ARRAY_RESERVE(found->methods, found->capacity, found->count + 1,
				    METHODS_FIRST, V8_METHODS_MAX);

	if (r < 0) {
		fail(c, r == -ENOMEM ? r : -EINVAL);
		return;
	}
	found->methods[found->count++] =
	    (struct v8_method){.at = c->at, .class_name = level(c)->body};
}

static void open_brace(struct v8_classes *c)
{
	struct level *l = level(c);
	const bool is_class = l->head != HEAD_NONE && c->token != TOKEN_KEYWORD;
	const bool is_object = c->token <= TOKEN_KEYWORD;

	l->head = HEAD_NONE;
	open_bracket(c,
		     is_class	 ? BRACKET_CLASS
		     : is_object ? BRACKET_OBJECT
				 : BRACKET_BLOCK,
		     is_class ? l->name : (struct v8_span){0});
	token_set(c, TOKEN_BLOCK);
}

static void close_brace(struct v8_classes *c)
{
	switch (close_bracket(c)) {
	case BRACKET_TEMPLATE:
		c->state = STATE_TEMPLATE;
		break;
	case BRACKET_OBJECT:
		token_set(c, TOKEN_VALUE);
		break;
	case BRACKET_BLOCK:
	case BRACKET_CLASS:
		token_set(c, TOKEN_BLOCK);
		break;
	default:
		fail(c, -EINVAL);
	}
}

static void close_parenthesis(struct v8_classes *c)
{
	const enum bracket bracket = close_bracket(c);

	if (bracket != BRACKET_PARENTHESIS && bracket != BRACKET_CONDITION)
		fail(c, -EINVAL);
	token_set(c, bracket == BRACKET_CONDITION ? TOKEN_CONDITION_CLOSED : TOKEN_PARENTHESES);
}

/* A character that is an operator or a part of one. */
static void read_operator(struct v8_classes *c, uint32_t ch)
{
	const bool adjacent = c->last_at + 1 == c->at;
	const bool doubled = adjacent && c->last == ch;
	enum token token = TOKEN_OPERATOR;

	if (ch == '.' && !doubled)
		token = TOKEN_DOT;
	else if (ch == ';' || (ch == '>' && adjacent && c->last == '='))
		token = TOKEN_BLOCK;
	else if (ch == '=' && c->token == TOKEN_WORD && c->chain.length)
		token = TOKEN_ASSIGN;
	/* After a value, "++" belongs to that value. */
	else if ((ch == '+' || ch == '-') && doubled && c->before >= TOKEN_WORD)
		token = TOKEN_VALUE;
	/* The head of a class continues with words and, after "extends", with a value. */
	if (level(c)->head == HEAD_CLASS || level(c)->head == HEAD_NAMED)
		level(c)->head = HEAD_NONE;
	c->last = ch;
	c->last_at = c->at;
	token_set(c, token);
}

static void read_bracket(struct v8_classes *c, uint32_t ch)
{
	if (ch != '{' && level(c)->head != HEAD_EXTENDS)
		level(c)->head = HEAD_NONE;
	switch (ch) {
	case '(':
		if (level(c)->bracket == BRACKET_CLASS)
			add_method(c);
		open_bracket(c,
			     c->token == TOKEN_CONDITION ? BRACKET_CONDITION : BRACKET_PARENTHESIS,
			     (struct v8_span){0});
		token_set(c, TOKEN_OPERATOR);
		break;
	case ')':
		close_parenthesis(c);
		break;
	case '[':
		open_bracket(c, BRACKET_SQUARE, (struct v8_span){0});
		token_set(c, TOKEN_OPERATOR);
		break;
	case ']':
		if (close_bracket(c) != BRACKET_SQUARE)
			fail(c, -EINVAL);
		token_set(c, TOKEN_VALUE);
		break;
	case '{':
		open_brace(c);
		break;
	default:
		close_brace(c);
	}
}

static void read_code(struct v8_classes *c, uint32_t ch)
{
	if (is_space(ch))
		return;
	if (is_word(ch)) {
		c->state = STATE_WORD;
		c->word_start = c->at;
		read_word(c, ch);
	} else if (ch == '"' || ch == '\'') {
		c->state = STATE_STRING;
		c->quote = ch;
	} else if (ch == '`') {
		c->state = STATE_TEMPLATE;
	} else if (ch == '/') {
		c->state = STATE_SLASH;
	} else if (strchr("()[]{}", (int)ch) && ch) {
		read_bracket(c, ch);
	} else {
		read_operator(c, ch);
	}
}

/* ---- Comments, strings, templates, regular expressions ---- */

static void end_value(struct v8_classes *c)
{
	c->state = STATE_CODE;
	if (level(c)->head != HEAD_EXTENDS)
		level(c)->head = HEAD_NONE;
	token_set(c, TOKEN_VALUE);
}

static void read_slash(struct v8_classes *c, uint32_t ch)
{
	if (ch == '/' || ch == '*') {
		c->state = ch == '/' ? STATE_LINE_COMMENT : STATE_COMMENT;
		return;
	}
	c->state = STATE_CODE;
	if (expects_value(c)) {
		c->state = ch == '\\'  ? STATE_REGEXP_ESCAPE
			   : ch == '[' ? STATE_REGEXP_CLASS
				       : STATE_REGEXP;
		return;
	}
	token_set(c, TOKEN_OPERATOR);
	read_code(c, ch);
}

static void read_string(struct v8_classes *c, uint32_t ch)
{
	if (c->state == STATE_STRING_ESCAPE) {
		c->state = ch == '\r' ? STATE_STRING_RETURN : STATE_STRING;
		return;
	}
	if (c->state == STATE_STRING_RETURN) {
		c->state = STATE_STRING;
		if (ch == '\n')
			return;
	}
	if (ch == c->quote)
		end_value(c);
	else if (ch == '\\')
		c->state = STATE_STRING_ESCAPE;
	else if (ch == '\n' || ch == '\r')
		fail(c, -EINVAL);
}

static void read_template(struct v8_classes *c, uint32_t ch)
{
	const enum state before = c->state;

	c->state = STATE_TEMPLATE;
	if (before == STATE_TEMPLATE_ESCAPE)
		return;
	if (before == STATE_TEMPLATE_DOLLAR && ch == '{') {
		c->state = STATE_CODE;
		open_bracket(c, BRACKET_TEMPLATE, (struct v8_span){0});
		token_set(c, TOKEN_OPERATOR);
	} else if (ch == '`') {
		end_value(c);
	} else if (ch == '\\') {
		c->state = STATE_TEMPLATE_ESCAPE;
	} else if (ch == '$') {
		c->state = STATE_TEMPLATE_DOLLAR;
	}
}

static void read_regexp(struct v8_classes *c, uint32_t ch)
{
	if (is_end_of_line(ch)) {
		fail(c, -EINVAL);
	} else if (c->state == STATE_REGEXP_ESCAPE) {
		c->state = STATE_REGEXP;
	} else if (c->state == STATE_REGEXP_CLASS_ESCAPE) {
		c->state = STATE_REGEXP_CLASS;
	} else if (c->state == STATE_REGEXP_CLASS) {
		c->state = ch == '\\'  ? STATE_REGEXP_CLASS_ESCAPE
			   : ch == ']' ? STATE_REGEXP
				       : STATE_REGEXP_CLASS;
	} else if (ch == '/') {
		end_value(c);
	} else {
		c->state = ch == '\\'  ? STATE_REGEXP_ESCAPE
			   : ch == '[' ? STATE_REGEXP_CLASS
				       : STATE_REGEXP;
	}
}

static void read_comment(struct v8_classes *c, uint32_t ch)
{
	if (c->state == STATE_LINE_COMMENT)
		c->state = is_end_of_line(ch) ? STATE_CODE : STATE_LINE_COMMENT;
	else if (c->state == STATE_COMMENT_STAR && ch == '/')
		c->state = STATE_CODE;
	else
		c->state = ch == '*' ? STATE_COMMENT_STAR : STATE_COMMENT;
}

void v8_classes_read(struct v8_classes *c, uint32_t ch)
{
	if (c->state == STATE_WORD) {
		/* "#!" at the start is a comment. */
		if (ch == '!' && c->at == 1 && c->word[0] == '#')
			c->state = STATE_LINE_COMMENT;
		else if (is_word(ch))
			read_word(c, ch);
		else
			end_word(c);
	}
	switch (c->state) {
	case STATE_CODE:
		read_code(c, ch);
		break;
	case STATE_SLASH:
		read_slash(c, ch);
		break;
	case STATE_LINE_COMMENT:
	case STATE_COMMENT:
	case STATE_COMMENT_STAR:
		read_comment(c, ch);
		break;
	case STATE_STRING:
	case STATE_STRING_ESCAPE:
	case STATE_STRING_RETURN:
		read_string(c, ch);
		break;
	case STATE_TEMPLATE:
	case STATE_TEMPLATE_ESCAPE:
	case STATE_TEMPLATE_DOLLAR:
		read_template(c, ch);
		break;
	case STATE_REGEXP:
	case STATE_REGEXP_ESCAPE:
	case STATE_REGEXP_CLASS:
	case STATE_REGEXP_CLASS_ESCAPE:
		read_regexp(c, ch);
		break;
	case STATE_WORD:
	case STATE_FAILED:
		break;
	}
	c->at++;
}

int v8_classes_end(struct v8_classes *c, struct v8_methods *methods)
{
	v8_classes_read(c, '\n');
	if (c->state == STATE_FAILED)
		return c->error;
	if (c->depth || c->state != STATE_CODE)
		return -EINVAL;
	*methods = c->found;
	c->found = (struct v8_methods){0};
	return 0;
}

bool v8_methods_find(const struct v8_methods *methods, uint32_t at, struct v8_span *class_name)
{
	const size_t first = SEARCH_LOWER_BOUND(i, methods->count, methods->methods[i].at < at);

	if (first == methods->count || methods->methods[first].at != at ||
	    !methods->methods[first].class_name.length)
		return false;
	*class_name = methods->methods[first].class_name;
	return true;
}
