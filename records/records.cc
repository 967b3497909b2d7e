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
 * A batch has a maximum size, so all of its memory is allocated when it is made, and nothing can
 * fail for want of memory afterwards: the library and std::vector would end the program. Memory
 * that no batch has needed yet is not touched.
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

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "records_generated.h"

namespace fb = bulkhead::records;
using flatbuffers::Offset;

enum {
	/* Of a table, with its vtable and padding, and of the root table with the lengths of the
	 * vectors. The largest is Process with 10 fields of at most 8 bytes. */
	TABLE_BYTES_MAX = 256,
	/* Of what the builder notes about unfinished tables, next to the batch. */
	BUILDER_NOTES_BYTES = 4096,
	BUILDER_BYTES = (RECORDS_BYTES_MAX + BUILDER_NOTES_BYTES) / 8 * 8,
	/* A table in the buffer and its offset take at least this. */
	TABLE_BYTES_MIN = 12
};

/* A list with a maximum length. The memory of items that were not added is not touched. */
template <typename T, size_t max> struct list {
	alignas(T) unsigned char bytes[max * sizeof(T)];
	size_t count;

	const T *items() const
	{
		return reinterpret_cast<const T *>(bytes);
	}
	void add(const T &item)
	{
		if (count < max)
			new (bytes + count++ * sizeof(T)) T(item);
	}
};
template <typename T> using table_list = list<Offset<T>, RECORDS_BYTES_MAX / TABLE_BYTES_MIN>;

/* Gives the builder its buffer, once. room() keeps it from asking for a larger one. */
class buffer : public flatbuffers::Allocator
{
      public:
	uint8_t *allocate(size_t size) override
	{
		return size <= sizeof(bytes) ? bytes : nullptr;
	}
	void deallocate(uint8_t *, size_t) override
	{
	}

      private:
	alignas(8) uint8_t bytes[BUILDER_BYTES];
};

struct records {
	/* Not `= default`: that would write zeros to all of it. */
	records()
	{
	}

	buffer memory;
	flatbuffers::FlatBufferBuilder builder{BUILDER_BYTES, &memory};
	table_list<fb::Module> modules;
	table_list<fb::Function> functions;
	list<fb::Frame, RECORDS_BYTES_MAX / sizeof(fb::Frame)> frames;
	table_list<fb::LabelSet> label_sets;
	table_list<fb::Stack> stacks;
	table_list<fb::Process> processes;
	table_list<fb::Thread> threads;
	list<fb::Sample, RECORDS_BYTES_MAX / sizeof(fb::Sample)> samples;
	bool finished = false;
	bool overflow = false; /* a record did not fit */
};

/* Empties the lists. */
static void records_clear(struct records *r)
{
	r->modules.count = r->functions.count = r->frames.count = r->label_sets.count = 0;
	r->stacks.count = r->processes.count = r->threads.count = r->samples.count = 0;
	r->overflow = false;
}

struct records *records_new(void)
{
	struct records *r = new (std::nothrow) records;

	if (r)
		records_clear(r);
	return r;
}

void records_free(struct records *r)
{
	delete r;
}

/* Returns whether `bytes` more fit. Starts the next batch if the last one is finished, whose bytes
 * were valid until now. */
static bool room(struct records *r, size_t bytes)
{
	if (r->finished)
		r->builder.Clear();
	r->finished = false;
	if (r->overflow || records_bytes(r) + bytes > RECORDS_BYTES_MAX)
		r->overflow = true;
	return !r->overflow;
}

/* The bytes of a string at most, with its length, NUL and padding. */
static size_t text_bytes(const char *s)
{
	return s ? strlen(s) + 16 : 0;
}

/* Writes a string that may be missing. An empty one is left out, and the reader sees it as "". */
static Offset<flatbuffers::String> text_offset(struct records *r, const char *s)
{
	return s && s[0] ? r->builder.CreateString(s) : Offset<flatbuffers::String>();
}

void records_add_module(struct records *r, const struct record_module *m)
{
	if (!room(r, TABLE_BYTES_MAX + text_bytes(m->path) + text_bytes(m->gnu_build_id) +
			 text_bytes(m->htlhash) + text_bytes(m->go_build_id)))
		return;
	auto path = r->builder.CreateString(m->path);
	auto build_id = r->builder.CreateString(m->gnu_build_id);
	auto htlhash = r->builder.CreateString(m->htlhash);
	auto go_build_id = text_offset(r, m->go_build_id);
	r->modules.add(fb::CreateModule(r->builder, m->id, path, build_id, htlhash, go_build_id));
}

void records_add_function(struct records *r, const struct record_function *f)
{
	if (!room(r, TABLE_BYTES_MAX + text_bytes(f->name) + text_bytes(f->file) +
			 text_bytes(f->system_name)))
		return;
	auto name = r->builder.CreateString(f->name);
	auto file = text_offset(r, f->file);
	auto system_name = text_offset(r, f->system_name);
	r->functions.add(fb::CreateFunction(r->builder, f->id, name, file, f->start_line,
					    f->name_is_generated, system_name));
}

void records_add_frame(struct records *r, const struct record_frame *f)
{
	if (room(r, sizeof(fb::Frame)))
		r->frames.add(fb::Frame(f->address, f->id, f->module, f->function, f->line, f->kind,
					f->caller));
}

void records_add_label_set(struct records *r, const struct record_label_set *s)
{
	Offset<fb::Label> labels[RECORD_LABELS_MAX];
	const uint32_t count = std::min<uint32_t>(s->count, RECORD_LABELS_MAX);
	size_t bytes = TABLE_BYTES_MAX;

	for (uint32_t i = 0; i < count; i++)
		bytes += 32 + text_bytes(s->labels[i].key) + text_bytes(s->labels[i].value);
	if (!room(r, bytes))
		return;
	for (uint32_t i = 0; i < count; i++) {
		auto key = r->builder.CreateString(s->labels[i].key);
		auto value = r->builder.CreateString(s->labels[i].value);
		labels[i] = fb::CreateLabel(r->builder, key, value);
	}
	r->label_sets.add(
	    fb::CreateLabelSet(r->builder, s->id, r->builder.CreateVector(labels, count)));
}

void records_add_stack(struct records *r, const struct record_stack *s)
{
	if (!room(r, TABLE_BYTES_MAX + (size_t)s->count * sizeof(s->frames[0])))
		return;
	auto frames = r->builder.CreateVector(s->frames, s->count);
	r->stacks.add(fb::CreateStack(r->builder, s->id, s->reason, frames, s->labels));
}

void records_add_process(struct records *r, const struct record_process *p)
{
	Offset<fb::Variable> variables[RECORD_VARIABLES_MAX];
	const uint32_t count = std::min<uint32_t>(p->variable_count, RECORD_VARIABLES_MAX);
	size_t bytes = TABLE_BYTES_MAX + text_bytes(p->comm) + text_bytes(p->path) +
		       text_bytes(p->container_id) + text_bytes(p->service_name);

	for (uint32_t i = 0; i < count; i++)
		bytes += 32 + text_bytes(p->variables[i].name) + text_bytes(p->variables[i].value);
	if (!room(r, bytes))
		return;
	auto comm = r->builder.CreateString(p->comm);
	auto path = r->builder.CreateString(p->path);
	auto container_id = text_offset(r, p->container_id);
	auto service_name = text_offset(r, p->service_name);
	for (uint32_t i = 0; i < count; i++) {
		auto name = r->builder.CreateString(p->variables[i].name);
		auto value = r->builder.CreateString(p->variables[i].value);
		variables[i] = fb::CreateVariable(r->builder, name, value);
	}
	auto list = count ? r->builder.CreateVector(variables, count) : 0;
	r->processes.add(fb::CreateProcess(r->builder, p->id, p->tgid, p->start_ns, comm, path,
					   container_id, service_name, list));
}

void records_add_thread(struct records *r, const struct record_thread *t)
{
	if (!room(r, TABLE_BYTES_MAX + text_bytes(t->comm)))
		return;
	auto comm = r->builder.CreateString(t->comm);
	r->threads.add(fb::CreateThread(r->builder, t->id, t->process, t->tid, comm));
}

void records_add_sample(struct records *r, const struct record_sample *s)
{
	if (room(r, sizeof(fb::Sample)))
		r->samples.add(fb::Sample(s->time_ns, s->stack, s->thread, s->cpu, 0));
}

size_t records_bytes(const struct records *r)
{
	const size_t offsets = r->modules.count + r->functions.count + r->label_sets.count +
			       r->stacks.count + r->processes.count + r->threads.count;

	if (r->finished || (!r->builder.GetSize() && !r->frames.count && !r->samples.count))
		return 0;
	return r->builder.GetSize() + offsets * sizeof(uint32_t) +
	       r->frames.count * sizeof(fb::Frame) + r->samples.count * sizeof(fb::Sample) +
	       TABLE_BYTES_MAX;
}

size_t records_samples(const struct records *r)
{
	return r->samples.count;
}

/* Writes a list of tables as a vector. */
template <typename Tables> static auto tables_offset(struct records *r, const Tables &tables)
{
	return r->builder.CreateVector(tables.items(), tables.count);
}

const uint8_t *records_finish(struct records *r, const struct record_head *head, size_t *length)
{
	const bool fits = room(r, 0);

	if (fits) {
		auto modules = tables_offset(r, r->modules);
		auto functions = tables_offset(r, r->functions);
		auto frames = r->builder.CreateVectorOfStructs(r->frames.items(), r->frames.count);
		auto label_sets = tables_offset(r, r->label_sets);
		auto stacks = tables_offset(r, r->stacks);
		auto processes = tables_offset(r, r->processes);
		auto threads = tables_offset(r, r->threads);
		auto samples =
		    r->builder.CreateVectorOfStructs(r->samples.items(), r->samples.count);
		r->builder.Finish(fb::CreateBatch(r->builder, head->sequence, head->position,
						  head->reset, modules, functions, frames,
						  label_sets, stacks, processes, threads, samples));
	}
	records_clear(r);
	r->finished = true;
	if (!fits)
		return nullptr;
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
