/**
 * The administrator's client: what a script of an organization needs to speak its administration. Contract:
 * "The organization's authority".
 */
export { createAdminClient, type AdminClient } from './client.ts'
