/* SPDX-License-Identifier: Apache-2.0 */
/* For tests in which work that is done in slices (common/slices.h) ends with its first slice,
 * however loaded the machine is. They are linked with bulkhead_without_pauses(). */
void __wrap_slices_pause_when_due(void);
void __wrap_slices_pause_when_due(void)
{
}
