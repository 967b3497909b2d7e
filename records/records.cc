/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This is the only C++ file, because FlatBuffers has a C++ runtime and no C one in Debian. It is
 * compiled without exceptions and RTTI.
 *
 * How this works. A FlatBuffer is built from the inside out. When a record is added, its strings
 * and its table go into the builder at once, and the table's offset is collected in a vector, one
 * for each kind of record. Frames and samples are structs of fixed size and are collected as they
 * are. records_finish() writes the vectors and the root table, Batch.
 *
 * A batch is verified before it is read. The library's verifier checks that every offset and length
 * stays inside the buffer and that strings are NUL-terminated. It does not check the alignment of
 * vectors of structs, so verified() does. After that, accessors cannot leave the buffer.
 *
 * Example: records_add_module() with the path "/usr/bin/ls" writes the string, then a table Module
 * that refers to it, and keeps the table's offset in `modules`. In the finished batch,
 * Batch.modules[0].path is that string.
 */
#include "records/records.h"

#include <cerrno>
#include <cstring>
#include <new>
#include <vector>

#include "records_generated.h"

namespace fb = bulkhead::records;
using flatbuffers::Offset;

struct records {
	flatbuffers::FlatBufferBuilder builder{64 * 1024};
	std::vector<Offset<fb::Module>> modules;
	std::vector<Offset<fb::Function>> functions;
	std::vector<fb::Frame> frames;
	std::vector<Offset<fb::LabelSet>> label_sets;
	std::vector<Offset<fb::Stack>> stacks;
	std::vector<Offset<fb::Process>> processes;
	std::vector<Offset<fb::Thread>> threads;
	std::vector<fb::Sample> samples;
	bool finished = false;
};

/* Starts the next batch if the last one is finished, whose bytes were valid until now. */
static void records_reopen(struct records *r)
{
	if (!r->finished)
		return;
	r->builder.Clear();
	r->finished = false;
}

struct records *records_new(void)
{
	return new (std::nothrow) records;
}

void records_free(struct records *r)
{
	delete r;
}

/* Writes a string that may be missing. An empty one is left out, and the reader sees it as "". */
static Offset<flatbuffers::String> text_offset(struct records *r, const char *s)
{
	return s && s[0] ? r->builder.CreateString(s) : Offset<flatbuffers::String>();
}

void records_add_module(struct records *r, const struct record_module *m)
{
	records_reopen(r);
	auto path = r->builder.CreateString(m->path);
	auto build_id = r->builder.CreateString(m->gnu_build_id);
	auto htlhash = r->builder.CreateString(m->htlhash);
	auto go_build_id = text_offset(r, m->go_build_id);
	r->modules.push_back(
	    fb::CreateModule(r->builder, m->id, path, build_id, htlhash, go_build_id));
}

void records_add_function(struct records *r, const struct record_function *f)
{
	records_reopen(r);
	auto name = r->builder.CreateString(f->name);
	auto file = text_offset(r, f->file);
	auto system_name = text_offset(r, f->system_name);
	r->functions.push_back(fb::CreateFunction(r->builder, f->id, name, file, f->start_line,
						  f->name_is_generated, system_name));
}

void records_add_frame(struct records *r, const struct record_frame *f)
{
	records_reopen(r);
	r->frames.emplace_back(f->address, f->id, f->module, f->function, f->line, f->kind,
			       f->caller);
}

void records_add_label_set(struct records *r, const struct record_label_set *s)
{
	records_reopen(r);
	std::vector<Offset<fb::Label>> list;
	for (uint32_t i = 0; i < s->count; i++) {
		auto key = r->builder.CreateString(s->labels[i].key);
		auto value = r->builder.CreateString(s->labels[i].value);
		list.push_back(fb::CreateLabel(r->builder, key, value));
	}
	r->label_sets.push_back(
	    fb::CreateLabelSet(r->builder, s->id, r->builder.CreateVector(list)));
}

void records_add_stack(struct records *r, const struct record_stack *s)
{
	records_reopen(r);
	auto frames = r->builder.CreateVector(s->frames, s->count);
	r->stacks.push_back(fb::CreateStack(r->builder, s->id, s->reason, frames, s->labels));
}

void records_add_process(struct records *r, const struct record_process *p)
{
	records_reopen(r);
	auto comm = r->builder.CreateString(p->comm);
	auto path = r->builder.CreateString(p->path);
	auto container_id = text_offset(r, p->container_id);
	auto service_name = text_offset(r, p->service_name);
	std::vector<Offset<fb::Variable>> list;
	for (uint32_t i = 0; i < p->variable_count; i++) {
		auto name = r->builder.CreateString(p->variables[i].name);
		auto value = r->builder.CreateString(p->variables[i].value);
		list.push_back(fb::CreateVariable(r->builder, name, value));
	}
	auto variables = list.empty() ? 0 : r->builder.CreateVector(list);
	r->processes.push_back(fb::CreateProcess(r->builder, p->id, p->tgid, p->start_ns, comm,
						 path, container_id, service_name, variables));
}

void records_add_thread(struct records *r, const struct record_thread *t)
{
	records_reopen(r);
	auto comm = r->builder.CreateString(t->comm);
	r->threads.push_back(fb::CreateThread(r->builder, t->id, t->process, t->tid, comm));
}

void records_add_sample(struct records *r, const struct record_sample *s)
{
	records_reopen(r);
	r->samples.emplace_back(s->time_ns, s->stack, s->thread, s->cpu, 0);
}

size_t records_bytes(const struct records *r)
{
	const size_t offsets = r->modules.size() + r->functions.size() + r->label_sets.size() +
			       r->stacks.size() + r->processes.size() + r->threads.size();

	if (r->finished || (!r->builder.GetSize() && r->frames.empty() && r->samples.empty()))
		return 0;
	/* 256: the root table, the lengths of the vectors, and their alignment. */
	return r->builder.GetSize() + offsets * sizeof(uint32_t) +
	       r->frames.size() * sizeof(fb::Frame) + r->samples.size() * sizeof(fb::Sample) + 256;
}

size_t records_samples(const struct records *r)
{
	return r->samples.size();
}

const uint8_t *records_finish(struct records *r, const struct record_head *head, size_t *length)
{
	records_reopen(r);
	auto modules = r->builder.CreateVector(r->modules);
	auto functions = r->builder.CreateVector(r->functions);
	auto frames = r->builder.CreateVectorOfStructs(r->frames);
	auto label_sets = r->builder.CreateVector(r->label_sets);
	auto stacks = r->builder.CreateVector(r->stacks);
	auto processes = r->builder.CreateVector(r->processes);
	auto threads = r->builder.CreateVector(r->threads);
	auto samples = r->builder.CreateVectorOfStructs(r->samples);
	r->builder.Finish(fb::CreateBatch(r->builder, head->sequence, head->position, head->reset,
					  modules, functions, frames, label_sets, stacks, processes,
					  threads, samples));
	r->modules.clear();
	r->functions.clear();
	r->frames.clear();
	r->label_sets.clear();
	r->stacks.clear();
	r->processes.clear();
	r->threads.clear();
	r->samples.clear();
	r->finished = true;
	*length = r->builder.GetSize();
	return r->builder.GetBufferPointer();
}

static const char *text(const flatbuffers::String *s)
{
	return s ? s->c_str() : "";
}

template <typename Vector, typename Fn> static int each(const Vector *vector, Fn fn)
{
	if (!vector)
		return 0;
	for (auto item : *vector) {
		int r = fn(item);
		if (r)
			return r;
	}
	return 0;
}

static record_label_set label_set_of(const fb::LabelSet *s, struct record_label *labels)
{
	record_label_set record = {s->id(), labels, 0};

	each(s->labels(), [&](const fb::Label *l) {
		if (record.count < RECORD_LABELS_MAX)
			labels[record.count++] = {text(l->key()), text(l->value())};
		return 0;
	});
	return record;
}

static int visit_definitions(const fb::Batch *batch, const struct records_visitor *v, void *context)
{
	int r = each(batch->modules(), [&](const fb::Module *m) {
		const record_module record = {m->id(), text(m->path()), text(m->gnu_build_id()),
					      text(m->htlhash()), text(m->go_build_id())};
		return v->module(context, &record);
	});
	if (!r)
		r = each(batch->functions(), [&](const fb::Function *f) {
			const record_function record = {
			    f->id(),	     text(f->name()),	     text(f->file()),
			    f->start_line(), f->name_is_generated(), text(f->system_name())};
			return v->function(context, &record);
		});
	if (!r)
		r = each(batch->frames(), [&](const fb::Frame *f) {
			const record_frame record = {f->address(),  f->id(),   f->module_(),
						     f->function(), f->line(), f->kind(),
						     f->caller()};
			return v->frame(context, &record);
		});
	if (!r)
		r = each(batch->label_sets(), [&](const fb::LabelSet *s) {
			struct record_label labels[RECORD_LABELS_MAX];
			const record_label_set record = label_set_of(s, labels);
			return v->label_set(context, &record);
		});
	if (!r)
		r = each(batch->stacks(), [&](const fb::Stack *s) {
			const auto *frames = s->frames();
			const record_stack record = {s->id(), s->reason(),
						     frames ? frames->data() : nullptr,
						     frames ? frames->size() : 0, s->labels()};
			return v->stack(context, &record);
		});
	return r;
}

static record_process process_of(const fb::Process *p, struct record_variable *variables)
{
	record_process record = {p->id(),
				 p->tgid(),
				 p->start_ns(),
				 text(p->comm()),
				 text(p->path()),
				 text(p->container_id()),
				 text(p->service_name()),
				 variables,
				 0};

	each(p->variables(), [&](const fb::Variable *v) {
		if (record.variable_count < RECORD_VARIABLES_MAX)
			variables[record.variable_count++] = {text(v->name()), text(v->value())};
		return 0;
	});
	return record;
}

/* Returns whether a vector of structs is aligned, which the library's verifier does not check. */
template <typename Struct> static bool aligned(const flatbuffers::Vector<const Struct *> *vector)
{
	return !vector || !vector->size() ||
	       reinterpret_cast<uintptr_t>(vector->Data()) % alignof(Struct) == 0;
}

static const fb::Batch *verified(const uint8_t *data, size_t length)
{
	flatbuffers::Verifier verifier(data, length);

	if (!verifier.VerifyBuffer<fb::Batch>(nullptr))
		return nullptr;
	const fb::Batch *batch = flatbuffers::GetRoot<fb::Batch>(data);
	return aligned(batch->frames()) && aligned(batch->samples()) ? batch : nullptr;
}

int records_head(const uint8_t *data, size_t length, struct record_head *head)
{
	const fb::Batch *batch = verified(data, length);

	if (!batch)
		return -EBADMSG;
	*head = {batch->sequence(), batch->position(), batch->reset()};
	return 0;
}

int records_visit(const uint8_t *data, size_t length, const struct records_visitor *v,
		  void *context)
{
	const fb::Batch *batch = verified(data, length);

	if (!batch)
		return -EBADMSG;
	int r = batch->reset() ? v->reset(context) : 0;
	if (!r)
		r = visit_definitions(batch, v, context);
	if (!r)
		r = each(batch->processes(), [&](const fb::Process *p) {
			struct record_variable variables[RECORD_VARIABLES_MAX];
			const record_process record = process_of(p, variables);
			return v->process(context, &record);
		});
	if (!r)
		r = each(batch->threads(), [&](const fb::Thread *t) {
			const record_thread record = {t->id(), t->process(), t->tid(),
						      text(t->comm())};
			return v->thread(context, &record);
		});
	if (!r)
		r = each(batch->samples(), [&](const fb::Sample *s) {
			const record_sample record = {s->time_ns(), s->stack(), s->thread(),
						      s->cpu()};
			return v->sample(context, &record);
		});
	return r;
}
