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
	PAIR_BYTES_MAX = 32,  /* of a table of two strings, and its offset */
	SAMPLE_CPU_BITS = 16, /* of Sample.where */
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
	size_t listed = 0; /* bytes that the lists will take in the batch */
	bool finished = false;
	bool overflow = false; /* a record did not fit */
};

/* Adds an item to one of the lists. */
template <typename List, typename T> static void list_add(struct records *r, List &list, T item)
{
	list.add(item);
	r->listed += sizeof(item);
}

/* Empties the lists. */
static void records_clear(struct records *r)
{
	r->modules.count = r->functions.count = r->frames.count = r->label_sets.count = 0;
	r->stacks.count = r->processes.count = r->threads.count = r->samples.count = 0;
	r->listed = 0;
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

static inline size_t bytes_of(const struct records *r)
{
	return r->finished || (!r->builder.GetSize() && !r->listed)
		   ? 0
		   : r->builder.GetSize() + r->listed + TABLE_BYTES_MAX;
}

/* Returns whether `bytes` more fit. Starts the next batch if the last one is finished, whose bytes
 * were valid until now. */
static inline bool room(struct records *r, size_t bytes)
{
	if (r->finished)
		r->builder.Clear();
	r->finished = false;
	if (bytes_of(r) + bytes > RECORDS_BYTES_MAX)
		r->overflow = true;
	return !r->overflow;
}

/* A string that may be missing. */
struct text {
	const char *at;
	size_t length;

	explicit text(const char *s) : at(s), length(s ? strlen(s) : 0)
	{
	}
	/* What it takes at most, with its length, NUL and padding. */
	size_t bytes() const
	{
		return length + 16;
	}
};

static Offset<flatbuffers::String> text_offset(struct records *r, const text &t)
{
	return r->builder.CreateString(t.at, t.length);
}

/* Writes a string, unless it is empty: then it is left out, and the reader sees it as "". */
static Offset<flatbuffers::String> optional_offset(struct records *r, const text &t)
{
	return t.length ? text_offset(r, t) : Offset<flatbuffers::String>();
}

void records_add_module(struct records *r, const struct record_module *m)
{
	const text path(m->path), build_id(m->gnu_build_id), htlhash(m->htlhash),
	    go_build_id(m->go_build_id);

	if (!room(r, TABLE_BYTES_MAX + path.bytes() + build_id.bytes() + htlhash.bytes() +
			 go_build_id.bytes()))
		return;
	auto path_at = text_offset(r, path);
	auto build_id_at = text_offset(r, build_id);
	auto htlhash_at = text_offset(r, htlhash);
	auto go_build_id_at = optional_offset(r, go_build_id);
	list_add(
	    r, r->modules,
	    fb::CreateModule(r->builder, m->id, path_at, build_id_at, htlhash_at, go_build_id_at));
}

void records_add_function(struct records *r, const struct record_function *f)
{
	const text name(f->name), file(f->file), system_name(f->system_name);

	if (!room(r, TABLE_BYTES_MAX + name.bytes() + file.bytes() + system_name.bytes()))
		return;
	auto name_at = text_offset(r, name);
	auto file_at = optional_offset(r, file);
	auto system_name_at = optional_offset(r, system_name);
	list_add(r, r->functions,
		 fb::CreateFunction(r->builder, f->id, name_at, file_at, f->start_line,
				    f->name_is_generated, system_name_at));
}

void records_add_frame(struct records *r, const struct record_frame *f)
{
	if (room(r, sizeof(fb::Frame)))
		list_add(r, r->frames,
			 fb::Frame(f->address, f->id, f->module, f->function, f->line, f->kind,
				   f->caller));
}

void records_add_label_set(struct records *r, const struct record_label_set *s)
{
	Offset<fb::Label> labels[RECORD_LABELS_MAX];
	const uint32_t count = std::min<uint32_t>(s->count, RECORD_LABELS_MAX);
	size_t bytes = TABLE_BYTES_MAX;

	for (uint32_t i = 0; i < count; i++)
		bytes += PAIR_BYTES_MAX + text(s->labels[i].key).bytes() +
			 text(s->labels[i].value).bytes();
	if (!room(r, bytes))
		return;
	for (uint32_t i = 0; i < count; i++) {
		auto key = text_offset(r, text(s->labels[i].key));
		auto value = text_offset(r, text(s->labels[i].value));
		labels[i] = fb::CreateLabel(r->builder, key, value);
	}
	list_add(r, r->label_sets,
		 fb::CreateLabelSet(r->builder, s->id, r->builder.CreateVector(labels, count)));
}

void records_add_stack(struct records *r, const struct record_stack *s)
{
	if (!room(r, TABLE_BYTES_MAX + (size_t)s->count * sizeof(s->frames[0])))
		return;
	auto frames = r->builder.CreateVector(s->frames, s->count);
	list_add(r, r->stacks, fb::CreateStack(r->builder, s->id, s->reason, frames, s->labels));
}

void records_add_process(struct records *r, const struct record_process *p)
{
	Offset<fb::Variable> variables[RECORD_VARIABLES_MAX];
	const uint32_t count = std::min<uint32_t>(p->variable_count, RECORD_VARIABLES_MAX);
	const text comm(p->comm), path(p->path), container_id(p->container_id),
	    service_name(p->service_name);
	size_t bytes = TABLE_BYTES_MAX + comm.bytes() + path.bytes() + container_id.bytes() +
		       service_name.bytes();

	for (uint32_t i = 0; i < count; i++)
		bytes += PAIR_BYTES_MAX + text(p->variables[i].name).bytes() +
			 text(p->variables[i].value).bytes();
	if (!room(r, bytes))
		return;
	auto comm_at = text_offset(r, comm);
	auto path_at = text_offset(r, path);
	auto container_id_at = optional_offset(r, container_id);
	auto service_name_at = optional_offset(r, service_name);
	for (uint32_t i = 0; i < count; i++) {
		auto name = text_offset(r, text(p->variables[i].name));
		auto value = text_offset(r, text(p->variables[i].value));
		variables[i] = fb::CreateVariable(r->builder, name, value);
	}
	auto list = count ? r->builder.CreateVector(variables, count) : 0;
	list_add(r, r->processes,
		 fb::CreateProcess(r->builder, p->id, p->tgid, p->start_ns, comm_at, path_at,
				   container_id_at, service_name_at, list));
}

void records_add_thread(struct records *r, const struct record_thread *t)
{
	const text comm(t->comm);

	if (!room(r, TABLE_BYTES_MAX + comm.bytes()))
		return;
	auto comm_at = text_offset(r, comm);
	list_add(r, r->threads, fb::CreateThread(r->builder, t->id, t->process, t->tid, comm_at));
}

void records_add_sample(struct records *r, const struct record_sample *s)
{
	if (room(r, sizeof(fb::Sample)))
		list_add(r, r->samples,
			 fb::Sample(s->time_ns, s->stack, s->thread,
				    s->goroutine << SAMPLE_CPU_BITS | s->cpu));
}

size_t records_bytes(const struct records *r)
{
	return bytes_of(r);
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

static const char *text_of(const flatbuffers::String *s)
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
			labels[record.count++] = {text_of(l->key()), text_of(l->value())};
		return 0;
	});
	return record;
}

static int visit_definitions(const fb::Batch *batch, const struct records_visitor *v, void *context)
{
	int r = each(batch->modules(), [&](const fb::Module *m) {
		const record_module record = {m->id(), text_of(m->path()),
					      text_of(m->gnu_build_id()), text_of(m->htlhash()),
					      text_of(m->go_build_id())};
		return v->module(context, &record);
	});
	if (!r)
		r = each(batch->functions(), [&](const fb::Function *f) {
			const record_function record = {
			    f->id(),	     text_of(f->name()),     text_of(f->file()),
			    f->start_line(), f->name_is_generated(), text_of(f->system_name())};
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
				 text_of(p->comm()),
				 text_of(p->path()),
				 text_of(p->container_id()),
				 text_of(p->service_name()),
				 variables,
				 0};

	each(p->variables(), [&](const fb::Variable *v) {
		if (record.variable_count < RECORD_VARIABLES_MAX)
			variables[record.variable_count++] = {text_of(v->name()),
							      text_of(v->value())};
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
						      text_of(t->comm())};
			return v->thread(context, &record);
		});
	if (!r)
		r = each(batch->samples(), [&](const fb::Sample *s) {
			const record_sample record = {s->time_ns(), s->stack(), s->thread(),
						      static_cast<uint16_t>(s->where()),
						      s->where() >> SAMPLE_CPU_BITS};
			return v->sample(context, &record);
		});
	return r;
}
