<?php
// SPDX-License-Identifier: Apache-2.0
// A page of a web server. It compiles templates with Twig and renders them, finds classes with Composer's parser, or compares versions: ?part= says which.
// Each request compiles its templates again, so their code lives for as long as the request.
require_once '/usr/share/php/Twig/autoload.php';
require_once '/usr/share/php/Composer/autoload.php';

const TEMPLATES = [
    'base.html' => '<html><head><title>{% block title %}{% endblock %}</title></head><body>{% block body %}{% endblock %}</body></html>',
    'macros.html' => '{% macro row(item, level) %}<td>{{ item.name|upper }}</td><td>{{ item.price|number_format(2) }}</td>
        {% if level < 3 %}{{ _self.row(item, level + 1) }}{% endif %}{% endmacro %}',
    'page.html' => '{% extends "base.html" %}{% from "macros.html" import row %}
        {% block title %}{{ title|title }}: {{ items|length }}{% endblock %}
        {% block body %}<table>{% for item in items|filter(i => i.price > 2)|sort((a, b) => a.price <=> b.price) %}
            <tr class="{{ cycle(["odd", "even"], loop.index) }}">{{ row(item, 0) }}<td>{{ item.tags|map(t => t|capitalize)|join(", ") }}</td>
            <td>{% for tag in item.tags %}{% include "tag.html" with {tag: tag} only %}{% endfor %}</td></tr>{% else %}<tr></tr>{% endfor %}</table>
        {{ items|reduce((sum, i) => sum + i.price, 0)|round }} {{ "now"|date("Y")|escape("js") }}{% endblock %}',
    'tag.html' => '<a href="/tags/{{ tag|url_encode }}">{{ tag|replace({"a": "A"}) }}</a>',
];

function render(): string
{
    $twig = new Twig\Environment(new Twig\Loader\ArrayLoader(TEMPLATES), ['cache' => false]);
    $items = [];
    for ($i = 0; $i < 30; $i++) {
        $items[] = ['name' => "item $i", 'price' => $i * 7 % 11, 'tags' => ['alpha', 'beta', "gamma & $i"]];
    }
    $page = $twig->render('page.html', ['title' => 'all items', 'items' => $items]);
    if (extension_loaded('xdebug')) {
        tell_compiled_templates($twig);
    }
    return $page;
}

// The trace of Xdebug does not tell what is in code for eval.
function tell_compiled_templates(Twig\Environment $twig): void
{
    foreach (array_keys(TEMPLATES) as $name) {
        file_put_contents(__DIR__ . "/traces/$name.php", $twig->compileSource($twig->getLoader()->getSourceContext($name)));
    }
}

function find_classes(): string
{
    $found = 0;
    foreach (glob('/usr/share/php/Twig/{*,Node/*,TokenParser/*}.php', GLOB_BRACE) as $file) {
        $found += count(Composer\ClassMapGenerator\PhpFileParser::findClasses($file));
    }
    return (string) $found;
}

function compare_versions(): string
{
    $parser = new Composer\Semver\VersionParser;
    $right = 0;
    foreach (['^1.2 || ~2.0', '>=1.0 <2.0-dev || 3.*', '1.2.3 - 2.3.4', '!=1.5,>1.4', 'dev-main || ^4.0@beta'] as $constraint) {
        for ($i = 0; $i < 40; $i++) {
            $right += Composer\Semver\Semver::satisfies("1.$i.3", $constraint) ? 1 : 0;
            $right += $parser->parseConstraints($constraint)->matches($parser->parseConstraints("2.0.$i")) ? 1 : 0;
        }
    }
    $sorted = Composer\Semver\Semver::rsort(['1.0', '2.0-beta', '2.0-RC1', '1.10', 'dev-main']);
    return "$right $sorted[0]";
}

echo match ($_GET['part'] ?? '') {
    'render' => render(),
    'classes' => find_classes(),
    'versions' => compare_versions(),
}, "\n";
