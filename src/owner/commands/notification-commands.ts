/**
 * Owns `usher owner notifications`: addresses that get a message, outside her page, when something waits.
 * Contract: "Owner API", "Events" (row 1).
 */
import type { Command } from 'commander'
import { readAll } from '../../client/exchange.ts'
import { named } from '../../client/names.ts'
import { wholeNumber } from '../../client/program.ts'
import { printable, printableTime, table } from '../../terminal/printable.ts'
import type { MessageTiming, NewWebhook, NotificationTest, Subscription } from '../../wire/owner/owner-api.ts'
import { tell, type OwnerAction, type OwnerSession } from '../session.ts'

const ID = ['<id>', 'the subscription, as `list` names it; the beginning of that will do'] as const

/** Adds `notifications list`, `add`, `when`, `remove` and `test`. */
export function addNotificationCommands(program: Command, action: OwnerAction): void {
  const notifications = program
    .command('notifications')
    .description('where you get a message, outside of the page, when something waits')
  notifications
    .command('list')
    .description('your webhooks and browsers, and whether the last message was taken')
    .action(action(async session => tell(session, await readAll(session.client.notifications()), listTable)))
  notifications
    .command('add')
    .argument('<url>', 'the webhook, an https address that is reached from everywhere')
    .requiredOption('--name <name>', 'your name for it')
    .description('send messages to a webhook; prints, only this once, the secret that verifies them')
    .action(
      action(async (session, url: string, { name }: { name: string }) =>
        tell(session, await session.client.addWebhook({ name, url }), added),
      ),
    )
  notifications
    .command('when')
    .argument(...ID)
    .option('--quiet <from-until>', 'the hours of each day in which nothing is sent, such as 22:00-07:00')
    .option('--time-zone <name>', 'the zone of these hours', Intl.DateTimeFormat().resolvedOptions().timeZone)
    .option('--digest <minutes>', 'tell several requests together, so long after the first', wholeNumber)
    .description(
      'when it hears of requests that can be undone (an option that you leave out ends); of others it hears at once',
    )
    .action(
      action(async (session, target: string, when: When) =>
        tell(
          session,
          await named(target, id => session.client.setNotificationTiming(id, timingOf(when)), idsOf(session)),
          one => `${printable(one.name)} is told of what can be undone ${timingText(one)}.\n`,
        ),
      ),
    )
  notifications
    .command('remove')
    .argument(...ID)
    .description('tell it nothing more, at once')
    .action(
      action(async (session, target: string) =>
        tell(
          session,
          await named(target, id => session.client.removeNotification(id), idsOf(session)),
          ({ deleted }) => `${printable(deleted)} gets no more messages.\n`,
        ),
      ),
    )
  notifications
    .command('test')
    .argument(...ID)
    .description('send it a test now, and say whether it was taken')
    .action(
      action(async (session, target: string) =>
        tell(session, await named(target, id => session.client.testNotification(id), idsOf(session)), tested),
      ),
    )
}

interface When {
  quiet?: string
  timeZone: string
  digest?: number
}

/** The timing as the API takes it; the API says what is wrong with it. */
function timingOf({ quiet, timeZone, digest }: When): MessageTiming {
  const [from = '', until = ''] = quiet?.split('-').map(time => time.trim()) ?? []
  return {
    quiet_hours: quiet === undefined ? null : { from, until, time_zone: timeZone },
    digest_minutes: digest ?? null,
  }
}

function timingText({ quiet_hours, digest_minutes }: MessageTiming): string {
  const parts = [
    ...(quiet_hours === null
      ? []
      : [
          `not from ${printable(quiet_hours.from)} to ${printable(quiet_hours.until)} (${printable(quiet_hours.time_zone)})`,
        ]),
    ...(digest_minutes === null ? [] : [`together after ${digest_minutes} min`]),
  ]
  return parts.length === 0 ? 'at once' : parts.join(', ')
}

const idsOf =
  ({ client }: OwnerSession) =>
  async (): Promise<string[]> =>
    (await readAll(client.notifications())).map(({ id }) => id)

function listTable(all: Subscription[], columns?: number): string {
  if (all.length === 0)
    return 'No notifications are set up: only the page and `usher owner watch` tell you what waits.\n'
  const rows = all.map(one => [
    one.id,
    one.kind,
    one.name,
    one.origin,
    one.failing_since === null
      ? one.sent_at === null
        ? 'nothing sent yet'
        : `sent ${printableTime(one.sent_at)}`
      : `fails since ${printableTime(one.failing_since)}`,
    timingText(one),
  ])
  return table(['id', 'kind', 'name', 'at', 'state', 'told'], rows, columns)
}

function added({ id, name, secret }: NewWebhook): string {
  const verifies = secret === undefined ? '' : ` Its secret is shown only this once: ${printable(secret)}`
  return `${printable(name)} gets messages from now on: ${printable(id)}.${verifies}\n`
}

function tested({ delivered, status, why }: NotificationTest): string {
  if (delivered) return 'The test was taken.\n'
  const reason = status === null ? (why ?? 'nobody answered') : `it answered ${status}`
  return `The test was not taken: ${printable(reason)}.\n`
}
